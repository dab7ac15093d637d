use super::*;
use std::cell::{Cell, RefCell};

const A: &str = "10.0.0.1:80";
const B: &str = "10.0.0.2:80";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn named() -> Addresses {
    let loaded =
        weighbridge_config::load_str("t.yaml", "pools: [{name: a, endpoints: [http://gpu1]}]", &|_| {
            None
        });
    Addresses::new(&loaded.unwrap().config.pools[0].endpoints[0].url, &[])
}

/// What stands in the place of name servers and engines.
#[derive(Default)]
struct World {
    /// None: the name servers fail.
    names: RefCell<Option<Vec<SocketAddr>>>,
    alive: RefCell<Vec<SocketAddr>>,
    /// Takes connections and never answers.
    silent: RefCell<Vec<SocketAddr>>,
    asked: Cell<u32>,
    tried: RefCell<Vec<SocketAddr>>,
}

impl World {
    fn new(names: &[&str], alive: &[&str]) -> Self {
        let world = Self::default();
        world.set(names, alive);
        world
    }

    fn set(&self, names: &[&str], alive: &[&str]) {
        self.names
            .replace(Some(names.iter().map(|text| address(text)).collect()));
        self.alive
            .replace(alive.iter().map(|text| address(text)).collect());
    }

    async fn connect(&self, to: &Addresses) -> io::Result<SocketAddr> {
        self.tried.borrow_mut().clear();
        let look_up = || {
            self.asked.set(self.asked.get() + 1);
            let names = self.names.borrow().clone();
            std::future::ready(match names {
                Some(names) => Ok(names.into()),
                None => Err(io::ErrorKind::Other.into()),
            })
        };
        to.connect_by_name(look_up, |address| self.open(address)).await
    }

    async fn open(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        self.tried.borrow_mut().push(address);
        if self.silent.borrow().contains(&address) {
            std::future::pending::<()>().await;
        }
        if self.alive.borrow().contains(&address) {
            Ok(address)
        } else {
            Err(io::ErrorKind::ConnectionRefused.into())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a8_a_name_is_asked_for_again_after_a_while_and_at_once_when_it_led_nowhere() {
    let world = World::new(&[A], &[A]);
    let to = named();
    assert_eq!(world.connect(&to).await.unwrap(), address(A));
    assert_eq!(world.connect(&to).await.unwrap(), address(A));
    assert_eq!(world.asked.get(), 1, "fresh");
    world.set(&[B], &[B]);
    assert_eq!(
        world.connect(&to).await.unwrap(),
        address(B),
        "in the same attempt"
    );
    assert_eq!(world.asked.get(), 2);
    tokio::time::advance(FRESH).await;
    world.set(&[A], &[A, B]);
    assert_eq!(world.connect(&to).await.unwrap(), address(A));
}

#[tokio::test(start_paused = true)]
async fn a8_name_servers_that_fail_take_nothing_away() {
    let world = World::new(&[A], &[A]);
    let to = named();
    world.connect(&to).await.unwrap();
    world.names.replace(None);
    tokio::time::advance(FRESH * 100).await;
    assert_eq!(world.connect(&to).await.unwrap(), address(A));
    assert_eq!(
        world.connect(&named()).await.unwrap_err().kind(),
        io::ErrorKind::Other
    );
}

#[tokio::test(start_paused = true)]
async fn a8_one_dead_address_does_not_fail_the_attempt() {
    let world = World::new(&[A, B], &[B]);
    assert_eq!(world.connect(&named()).await.unwrap(), address(B), "refused");
    world.silent.replace(vec![address(A)]);
    let began = Instant::now();
    assert_eq!(world.connect(&named()).await.unwrap(), address(B), "silent");
    assert_eq!(began.elapsed(), STAGGER);
    assert_eq!(*world.tried.borrow(), [address(A), address(B)]);
    world.set(&[A, B], &[A, B]);
    world.silent.replace(vec![]);
    assert_eq!(world.connect(&named()).await.unwrap(), address(A));
    assert_eq!(*world.tried.borrow(), [address(A)], "no more than needed");
    world.set(&[A, B], &[]);
    let error = world.connect(&named()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    world.set(&[], &[]);
    assert_eq!(
        world.connect(&named()).await.unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}
