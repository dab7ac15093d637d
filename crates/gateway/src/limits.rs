//! File descriptors: raised as far as the system lets us, and checked against what the config needs.

/// Descriptors beside those of connections: logs, listeners, timers, files.
const OTHERS: u64 = 256;
/// Fewest clients that a gateway is worth starting for.
const CLIENTS_MIN: u64 = 64;

/// What the limit on open files allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// The limit now in force.
    pub limit: u64,
    /// Clients that it has room for, each with one upstream connection.
    pub clients: usize,
}

/// Raises the limit on open files towards what `max_connections` clients need.
///
/// # Errors
/// For a person: how many there are, how many are needed, and what to do. Only where hardly any client would have room;
/// otherwise [`OpenFiles::clients`] says how many have, and [`shortage`] how to have more.
pub fn raise_open_files(max_connections: usize) -> Result<OpenFiles, String> {
    let limit = rlimit::increase_nofile_limit(needed(max_connections).max(1024))
        .map_err(|error| format!("the limit on open files cannot be read or raised: {error}"))?;
    let clients = limit.saturating_sub(OTHERS) / 2;
    if clients < CLIENTS_MIN {
        return Err(format!(
            "this process may open only {limit} files; raise the limit, for example with: ulimit -n 65536"
        ));
    }
    Ok(OpenFiles {
        limit,
        clients: usize::try_from(clients).unwrap_or(usize::MAX),
    })
}

/// What to tell where `max_connections` clients do not all have room.
#[must_use]
pub fn shortage(max_connections: usize, open_files: OpenFiles) -> Option<String> {
    let OpenFiles { limit, clients } = open_files;
    let needed = needed(max_connections);
    (clients < max_connections).then(|| {
        format!(
            "this process may open {limit} files, enough for {clients} clients instead of server.max_connections \
             {max_connections}; more are turned away. Raise the limit (ulimit -n {needed}, or LimitNOFILE={needed} of \
             the service) or lower server.max_connections"
        )
    })
}

fn needed(max_connections: usize) -> u64 {
    (max_connections as u64).saturating_mul(2).saturating_add(OTHERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_told_with_the_numbers_that_mend_it() {
        let open_files = OpenFiles {
            limit: 20_000,
            clients: 9_872,
        };
        assert_eq!(shortage(9_872, open_files), None);
        let told = shortage(20_000, open_files).unwrap();
        assert!(
            told.contains("ulimit -n 40256") && told.contains("9872 clients"),
            "{told}"
        );
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes() {
        let raised = raise_open_files(1_000_000).unwrap();
        assert!(raised.limit >= raise_open_files(1).unwrap().limit.min(1024));
        assert!(raised.clients as u64 * 2 <= raised.limit);
    }
}
