//! Replicas of the gateway: the product's scheduler, or a yardstick in its place.

use super::{Baseline, DriveError, Setup};
use crate::workload::{Request, Workload};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::action::Bindings;
use weighbridge_core::event::Arrival;
use weighbridge_core::policies::session_affinity::{KeySource, SessionKey};
use weighbridge_core::prefix::BlockHash;
use weighbridge_core::spec::{FleetSpec, Protocols, RouteSpec};
use weighbridge_core::work::{Needs, Opening, Work};
use weighbridge_core::{Action, EndpointId, Event, RequestId, RouteId, Scheduler, Time};

/// One replica.
pub(super) enum Router {
    Scheduler(Box<Replica>),
    Baseline {
        baseline: Box<dyn Baseline>,
        /// Requests under way from here, by place of the endpoint.
        inflight: Vec<u32>,
    },
}

impl Router {
    /// Whether it looks at what engines tell of themselves.
    pub(super) fn reads_metrics(&self) -> bool {
        match self {
            Self::Scheduler(replica) => replica.needs.meets(Needs::SIGNALS),
            Self::Baseline { .. } => true,
        }
    }
}

/// The product's scheduler and its names of things.
pub(super) struct Replica {
    scheduler: Scheduler,
    route: RouteId,
    slots: HashMap<EndpointId, usize>,
    ids: Vec<Option<EndpointId>>,
    /// What its routes look at.
    pub(super) needs: Needs,
    /// Whether any engine tells of its cache.
    told: bool,
    /// By place of the route in the spec, with its name of it.
    keys: Vec<(RouteId, Keys)>,
}

/// Where the session key of a route's requests comes from.
#[derive(Clone, Copy)]
struct Keys {
    /// Whether it may be what clients name, which is the session.
    named: bool,
    /// Most bytes of the prompt that stand for it otherwise.
    head_bytes: Option<u64>,
}

impl Keys {
    fn of(route: &RouteSpec) -> Self {
        let Some(config) = &route.policies.session_affinity else {
            return Self {
                named: true,
                head_bytes: None,
            };
        };
        let named = |key: &KeySource| !matches!(key, KeySource::PromptHead(_));
        Self {
            named: config.keys.iter().any(named),
            head_bytes: config.head_bytes(),
        }
    }

    fn session(self, request: &Request, work: Option<&Work>) -> Option<SessionKey> {
        let named = request.session.filter(|_| self.named);
        let named = named.map(|session| SessionKey::new(&session.to_le_bytes()));
        named.or_else(|| Some(SessionKey::of_head(work?.head(self.head_bytes?)?)))
    }
}

/// Bytes of text of a token, as policies that give sizes in bytes reckon.
const TOKEN_BYTES: u32 = 4;

/// The opening of the conversation that the request at `index` belongs to: the prompt of its first turn, named by the block in
/// which that ends. None where the workload does not say what is a conversation.
fn opening(index: u32, workload: &Workload) -> Option<Opening> {
    let mut first = workload.requests.get(index as usize)?;
    first.session?;
    while let Some(before) = first.after {
        first = workload.requests.get(before as usize)?;
    }
    let whole = first.prompt_blocks(workload.block_tokens).len();
    let last = first.blocks.get(whole).or(first.blocks.last())?;
    Some(Opening {
        blocks: u32::try_from(whole).unwrap_or(u32::MAX),
        hash: BlockHash(*last),
    })
}

/// What a request asks of an engine. Each tenant has an adapter of its own, where routes look at adapters.
fn work((index, request): (u32, &Request), workload: &Workload, needs: Needs) -> Work {
    let block_tokens = workload.block_tokens;
    let blocks = request.prompt_blocks(block_tokens).iter();
    let class = workload.classes.get(usize::from(request.class));
    let tenant = workload.tenants.get(usize::from(request.tenant));
    Work {
        class: class
            .filter(|_| needs.meets(Needs::CLASS))
            .map(|class| class.name.clone()),
        adapter: tenant.filter(|_| needs.meets(Needs::ADAPTER)).cloned(),
        prompt_tokens: request.prompt_tokens,
        blocks: blocks.map(|block| BlockHash(*block)).collect(),
        block_tokens,
        block_bytes: block_tokens.saturating_mul(TOKEN_BYTES),
        opening: opening(index, workload).filter(|_| needs.meets(Needs::HEAD)),
        ..Work::default()
    }
}

/// What the routes of a fleet look at.
fn needs(spec: &FleetSpec) -> Needs {
    let needs = spec.routes.iter().map(|route| spec.needs(route));
    needs.fold(Needs::NONE, Needs::and)
}

pub(super) fn at(now: Duration) -> Time {
    Time::from_origin(now)
}

impl Replica {
    pub(super) fn new(setup: &Setup, number: u32) -> Self {
        Self {
            scheduler: Scheduler::new(setup.seed.wrapping_add(u64::from(number))),
            route: RouteId(0),
            slots: HashMap::new(),
            ids: Vec::new(),
            needs: needs(&setup.fleet.spec),
            told: setup.fleet.engines.iter().any(|engine| engine.kv_events),
            keys: Vec::new(),
        }
    }

    /// Tells the scheduler of the fleet; `places` are those of the spec's endpoints. Gives what else it wants.
    pub(super) fn configure(
        &mut self,
        now: Duration,
        spec: &Arc<FleetSpec>,
        (places, route): (&[Vec<usize>], usize),
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        self.scheduler
            .step(at(now), Event::Configure(spec.clone()), &mut actions);
        actions.retain(|action| {
            let Action::Configured(bindings) = action else {
                return true;
            };
            self.bind(bindings, places, route);
            let keys = spec.routes.iter().map(Keys::of);
            self.keys = bindings.routes.iter().copied().zip(keys).collect();
            false
        });
        actions
    }

    fn bind(&mut self, bindings: &Bindings, places: &[Vec<usize>], route: usize) {
        if let Some(id) = bindings.routes.get(route) {
            self.route = *id;
        }
        let ids = bindings.endpoints.iter().flatten();
        for (id, place) in ids.zip(places.iter().flatten()) {
            self.slots.insert(*id, *place);
            if self.ids.len() <= *place {
                self.ids.resize(*place + 1, None);
            }
            self.ids[*place] = Some(*id);
        }
    }

    pub(super) fn step(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.scheduler.step(at(now), event, &mut actions);
        actions
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let deadline = self
            .scheduler
            .next_deadline()
            .filter(|deadline| *deadline != Time::NEVER);
        deadline.map(|deadline| Duration::from_nanos(deadline.nanos()))
    }

    /// What a request asks of an engine; engines that tell of their caches name blocks as workloads do.
    fn work(&self, request: (u32, &Request), workload: &Workload) -> Work {
        let work = work(request, workload, self.needs);
        match self.told {
            true => Work {
                exact: work.blocks.clone(),
                exact_tokens: work.block_tokens,
                ..work
            },
            false => work,
        }
    }

    /// The arrival of a request, as far as the route looks at it.
    pub(super) fn arrival(
        &self,
        (index, request): (u32, &Request),
        workload: &Workload,
        route: Option<RouteId>,
    ) -> Event {
        let work = self
            .needs
            .work()
            .then(|| Arc::new(self.work((index, request), workload)));
        let route = route.unwrap_or(self.route);
        let keys = self.keys.iter().find(|(id, _)| *id == route);
        Event::Arrive(Arrival {
            request: RequestId(u64::from(index)),
            route,
            protocols: Protocols::ANY,
            session: keys.and_then(|(_, keys)| keys.session(request, work.as_deref())),
            only: None,
            explain: false,
            work,
        })
    }

    /// Its name of the endpoint at `place`.
    pub(super) fn id(&self, place: usize) -> Option<EndpointId> {
        self.ids.get(place).copied().flatten()
    }

    pub(super) fn place(&self, endpoint: EndpointId) -> Option<usize> {
        self.slots.get(&endpoint).copied()
    }

    /// What is still reserved; all of it has been given back when nothing is under way.
    pub(super) fn check_at_rest(&self, now: Duration) -> Result<(), DriveError> {
        let view = self.scheduler.view(at(now));
        let held = view.endpoints.iter().find(|endpoint| endpoint.inflight > 0);
        let what = match held {
            Some(endpoint) => format!(
                "{} slots of {} were not given back",
                endpoint.inflight, endpoint.name
            ),
            None if self.scheduler.bad_scores() > 0 => {
                format!(
                    "{} scores were negative or no numbers",
                    self.scheduler.bad_scores()
                )
            }
            None if view.routes.iter().any(|route| route.requests > 0) => "a request was lost".to_owned(),
            None => return Ok(()),
        };
        Err(DriveError::Invariant { at: now, what })
    }
}
