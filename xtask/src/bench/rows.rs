//! What is measured: the rows of the table, the load that each puts on a peer, and what is read off it.

use super::figures::{Aim, Figure};
use super::window::{Said, Window};

/// Text events of a stream that comes as fast as it can.
const FAST_CHUNKS: &str = "128";
/// Frames of a slow stream, and microseconds between them: 20 s.
const SLOW_FRAMES: u64 = 400;
/// Slow streams at a time.
const SLOW_STREAMS: u32 = 1000;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Row {
    Requests,
    Bodies,
    Latency,
    Stream,
    FirstByte,
    Slow,
    Prompts,
    Idle,
    Memory,
}

/// Load for one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) connections: u32,
    /// Size of a request's body, bytes.
    pub(super) body: usize,
    pub(super) stream: bool,
    /// Requests per second; none: as many as are answered.
    pub(super) rate: Option<u32>,
    /// Seconds that the window lasts, where it is not for the user to say.
    pub(super) seconds: Option<u32>,
    /// Milliseconds in which the connections begin.
    pub(super) ramp_ms: u32,
}

const PLAIN: Spec = Spec {
    connections: 64,
    body: 150,
    stream: false,
    rate: None,
    seconds: None,
    ramp_ms: 0,
};

const fn prompt(body: usize) -> Spec {
    Spec {
        connections: 16,
        body,
        rate: Some(100),
        ..PLAIN
    }
}

impl Row {
    pub(super) const ALL: [Self; 9] = [
        Self::Requests,
        Self::Bodies,
        Self::Latency,
        Self::Stream,
        Self::FirstByte,
        Self::Slow,
        Self::Prompts,
        Self::Idle,
        Self::Memory,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Bodies => "bodies",
            Self::Latency => "latency",
            Self::Stream => "stream",
            Self::FirstByte => "first-byte",
            Self::Slow => "slow",
            Self::Prompts => "prompts",
            Self::Idle => "idle",
            Self::Memory => "memory",
        }
    }

    /// Policies of the gateway's route: rows about prompts look for them in the caches of engines.
    pub(super) fn policies(self) -> &'static str {
        match self {
            Self::Bodies | Self::Prompts => "prefix_cache: {}, least_inflight: {}",
            _ => "session_affinity: {}, least_inflight: {}",
        }
    }

    /// How the upstream streams.
    pub(super) fn upstream(self) -> Vec<String> {
        let args: &[&str] = match self {
            Self::FirstByte => &["--chunks", "4", "--gap-us", "1000"],
            Self::Slow => &["--gap-us", "50000", "--stamped", "--chunks"],
            // The first event comes at once, the next one after the row has ended.
            Self::Idle => &["--chunks", "1", "--gap-us", "3600000000"],
            _ => &["--chunks", FAST_CHUNKS],
        };
        let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        if self == Self::Slow {
            args.push(SLOW_FRAMES.to_string());
        }
        args
    }

    /// The load of its windows; none where a row is measured in its own way.
    pub(super) fn specs(self) -> &'static [Spec] {
        const STREAM: Spec = Spec {
            stream: true,
            ..PLAIN
        };
        match self {
            Self::Requests => &[PLAIN],
            Self::Bodies => {
                const {
                    &[
                        Spec {
                            connections: 32,
                            body: 2048,
                            ..PLAIN
                        },
                        Spec {
                            connections: 32,
                            body: 16384,
                            ..PLAIN
                        },
                    ]
                }
            }
            Self::Latency => {
                const {
                    &[Spec {
                        connections: 8,
                        rate: Some(500),
                        ..PLAIN
                    }]
                }
            }
            Self::Stream => {
                const {
                    &[Spec {
                        connections: 8,
                        ..STREAM
                    }]
                }
            }
            Self::FirstByte => {
                const {
                    &[Spec {
                        connections: 1,
                        ..STREAM
                    }]
                }
            }
            // As long as no connection can begin a second stream, and each can end its first.
            Self::Slow => {
                const {
                    &[Spec {
                        connections: SLOW_STREAMS,
                        seconds: Some(15),
                        ramp_ms: 1000,
                        ..STREAM
                    }]
                }
            }
            Self::Prompts => const { &[prompt(100_000), prompt(200_000), prompt(400_000), prompt(800_000)] },
            Self::Idle | Self::Memory => &[],
        }
    }

    /// Whether every window needs a peer that has done nothing yet.
    pub(super) fn needs_fresh_peers(self) -> bool {
        self.specs().is_empty()
    }

    pub(super) fn figures(self) -> Vec<Figure> {
        match self {
            Self::Requests => vec![
                cpu(
                    "cpu_us_per_request",
                    "CPU µs per request, 150 B, 64 connections",
                    |w| per_request(w.first()?),
                )
                .aims(&[Aim::Most(30.0), Aim::MostTimesNginx(2.0)]),
                told("requests_per_second", "requests/s, 64 connections", |said| {
                    Some(said.rps)
                })
                .aims(&[Aim::Least(25_000.0), Aim::LeastTimesNginx(0.6)]),
            ],
            Self::Bodies => vec![
                cpu(
                    "cpu_us_per_request_2k",
                    "CPU µs per request, 2 KiB, 32 connections",
                    |w| per_request(w.first()?),
                )
                .aims(&[Aim::Most(60.0)]),
                cpu(
                    "cpu_us_per_request_16k",
                    "CPU µs per request, 16 KiB, 32 connections",
                    |w| per_request(w.get(1)?),
                )
                .aims(&[Aim::Most(80.0)]),
            ],
            Self::Latency => vec![
                told("added_p50_us", "added p50 µs at 500 requests/s", |said| {
                    Some(said.latency_us.p50)
                })
                .added()
                .aims(&[Aim::MostNginxPlus(40.0)]),
                told("added_p99_us", "added p99 µs at 500 requests/s", |said| {
                    Some(said.latency_us.p99)
                })
                .added(),
            ],
            Self::Stream => vec![
                cpu(
                    "cpu_us_per_chunk",
                    "CPU µs per chunk, 128-chunk streams, 8 connections",
                    |w| per_event(w.first()?),
                )
                .aims(&[Aim::Most(3.0)]),
            ],
            Self::FirstByte => first_byte(),
            Self::Slow => slow(),
            Self::Prompts => prompts(),
            Self::Idle => vec![
                Figure::read("kib_per_stream", "KiB per open stream, idle", None).aims(&[Aim::Most(20.0)]),
                Figure::read("idle_streams", "streams open", None),
            ],
            Self::Memory => vec![
                Figure::read("rss_idle_mib", "MiB at rest", None).aims(&[Aim::Most(20.0)]),
                Figure::read("rss_loaded_mib", "MiB under 64 connections", None).aims(&[Aim::Most(30.0)]),
                Figure::read("rss_burst_mib", "MiB in a burst of 64 × 120 KB", None),
                Figure::read("rss_after_mib", "MiB at most 60 s after the burst", None)
                    .aims(&[Aim::Most(30.0)]),
                Figure::read(
                    "seconds_to_return",
                    "seconds until that is the loaded figure again",
                    None,
                )
                .aims(&[Aim::Most(60.0)]),
            ],
        }
    }
}

fn first_byte() -> Vec<Figure> {
    vec![
        told(
            "first_byte_p50_us",
            "first byte of a stream, p50 µs, 1 connection",
            |said| Some(said.first_chunk_us?.p50),
        )
        .aims(&[Aim::Most(150.0)]),
        told("added_first_byte_us", "of that added, p50 µs", |said| {
            Some(said.first_chunk_us?.p50)
        })
        .added(),
        // A step of 40 ms (one side waits for an acknowledgement, the other delays it) meets every stream or most.
        told("first_byte_p90_us", "first byte of a stream, p90 µs", |said| {
            Some(said.first_chunk_us?.p90)
        })
        .aims(&[Aim::Most(35_000.0)]),
    ]
}

fn slow() -> Vec<Figure> {
    vec![
        cpu(
            "cpu_us_per_frame",
            "CPU µs per frame, 1,000 streams × 20 frames/s",
            |w| per_event(w.first()?),
        )
        .aims(&[Aim::MostTimesNginx(1.0)]),
        told("frames_lost", "frames lost of these", |said| {
            // The role, the reason to stop and the end mark come on top.
            let sent = said.requests * (SLOW_FRAMES + 3);
            Some(count(sent.abs_diff(said.events?)))
        })
        .aims(&[Aim::Most(0.0)]),
        told("added_frame_p99_ms", "added p99 ms per frame", |said| {
            Some(said.delay_us?.p99 / 1e3)
        })
        .added()
        .aims(&[Aim::Most(5.0)]),
    ]
}

fn prompts() -> Vec<Figure> {
    vec![
        cpu("cores_400kb", "cores at 100 requests/s of 400 KB", |w| {
            let window = w.get(2)?;
            Some(window.cpu_us? / 1e6 / window.said.seconds)
        })
        .aims(&[Aim::Most(0.3)]),
        cpu("cpu_ms_100kb", "CPU ms per request of 100 KB", |w| {
            Some(per_request(w.first()?)? / 1e3)
        }),
        cpu("cpu_ms_200kb", "… of 200 KB", |w| {
            Some(per_request(w.get(1)?)? / 1e3)
        }),
        cpu("cpu_ms_400kb", "… of 400 KB", |w| {
            Some(per_request(w.get(2)?)? / 1e3)
        }),
        cpu("cpu_ms_800kb", "… of 800 KB", |w| {
            Some(per_request(w.get(3)?)? / 1e3)
        }),
        cpu("growth", "800 KB over 8 × 100 KB", |w| {
            Some(per_request(w.get(3)?)? / per_request(w.first()?)? / 8.0)
        })
        .aims(&[Aim::Most(1.2)]),
    ]
}

fn cpu(key: &'static str, title: &'static str, value: fn(&[Window]) -> Option<f64>) -> Figure {
    Figure::read(key, title, Some(super::figures::Reading::Windows(value)))
}

fn told(key: &'static str, title: &'static str, value: fn(&Said) -> Option<f64>) -> Figure {
    Figure::read(key, title, Some(super::figures::Reading::Said(value)))
}

fn per_request(window: &Window) -> Option<f64> {
    Some(window.cpu_us? / count(window.said.requests))
}

fn per_event(window: &Window) -> Option<f64> {
    Some(window.cpu_us? / count(window.said.events?))
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn count(count: u64) -> f64 {
    count as f64
}
