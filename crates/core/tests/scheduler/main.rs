//! The scheduler as its drivers see it: events in, actions out.

#[cfg(test)]
mod auto;
#[cfg(test)]
mod balance;
#[cfg(test)]
mod fail_open;
#[cfg(test)]
mod failover;
#[cfg(test)]
mod fallback;
#[cfg(test)]
mod health;
#[cfg(test)]
mod live;
#[cfg(test)]
mod only;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod ranks;
#[cfg(test)]
mod records;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod shares;
#[cfg(test)]
mod table;
#[cfg(test)]
mod told;
#[cfg(test)]
mod world;
