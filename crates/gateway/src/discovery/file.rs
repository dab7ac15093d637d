//! Endpoints from a file.

use super::watch::Look;
use crate::settling::Settling;
use std::time::Duration;
use weighbridge_config::discovery::{List, read_endpoints};
use weighbridge_config::hash_file;

/// Time between two looks. The content is compared, so that every way of changing it is seen, on any file system.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(400);

/// Looks at one file.
pub(super) struct Looker {
    list: List,
    looks: Settling<Content>,
    /// What it held when it was last read for its endpoints.
    tried: Option<Content>,
    /// Whether those were taken.
    good: bool,
}

/// A hash of what the file holds, or why it cannot be read.
type Content = Result<String, String>;

impl Looker {
    pub(super) fn new(list: List) -> Self {
        Self {
            looks: Settling::new(hash_file(&list.path)),
            list,
            tried: None,
            good: false,
        }
    }

    /// None: nothing has happened that could be told.
    pub(super) fn look(&mut self) -> Option<Look> {
        let now = hash_file(&self.list.path);
        let told = |answered, found, error| {
            Some(Look {
                answered,
                found,
                error,
                again: LOOK_EVERY,
            })
        };
        let tried = self.tried.as_ref() == Some(&now);
        let settled = self.looks.settled(now).cloned();
        if tried {
            return if self.good { told(true, None, None) } else { None };
        }
        self.tried = Some(settled?);
        let read = read_endpoints(&self.list, &|name| std::env::var(name).ok());
        self.good = read.is_ok();
        match read {
            Ok((found, warnings)) => {
                for warning in &warnings {
                    tracing::warn!("{warning}");
                }
                told(true, Some(found.into()), None)
            }
            Err(problems) => told(false, None, Some(problems.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Watched {
        looker: Looker,
        directory: std::path::PathBuf,
    }

    impl Watched {
        fn new(name: &str) -> Self {
            let directory = std::env::temp_dir().join(format!("weighbridge-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&directory).unwrap();
            let path = directory.join("endpoints.yaml");
            Self {
                looker: Looker::new(List { path, ranks: 1 }),
                directory,
            }
        }

        fn write(&self, text: &str) {
            std::fs::write(&self.looker.list.path, text).unwrap();
        }

        /// Names that one look gave, or its error.
        fn look(&mut self) -> Option<Result<Vec<String>, String>> {
            let look = self.looker.look()?;
            match (look.found, look.error) {
                (_, Some(error)) => Some(Err(error)),
                (Some(found), None) => Some(Ok(found
                    .iter()
                    .map(|found| found.spec.name.to_string())
                    .collect())),
                (None, None) => None,
            }
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }

    #[test]
    fn a_change_is_taken_once_it_is_whole() {
        let mut file = Watched::new("whole");
        file.write("- http://h:1\n- http://h:2\n");
        assert_eq!(file.look(), None, "it has just been written");
        assert_eq!(file.look(), Some(Ok(vec!["h:1".into(), "h:2".into()])));
        assert_eq!(file.look(), None);
        file.write("- http://h:1\n");
        assert_eq!(file.look(), None, "half of it may be missing");
        file.write("- http://h:1\n- http://h:3\n");
        assert_eq!(file.look(), None);
        assert_eq!(file.look(), Some(Ok(vec!["h:1".into(), "h:3".into()])));
    }

    #[test]
    fn what_is_no_file_or_has_no_end_holds_up_nobody() {
        let mut file = Watched::new("endless");
        let path = file.looker.list.path.clone();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        assert_eq!(file.look(), None);
        let error = file.look().unwrap().unwrap_err();
        assert!(error.contains("no regular file"), "{error}");
        std::fs::remove_file(&path).unwrap();
        // Sparse, so that only its length is large.
        std::fs::File::create(&path).unwrap().set_len(300 << 20).unwrap();
        assert_eq!(file.look(), None);
        let error = file.look().unwrap().unwrap_err();
        assert!(error.contains("larger than 4 MiB"), "{error}");
        assert_eq!(file.look(), None);
        std::fs::remove_file(&path).unwrap();
        file.write("- http://h:1\n");
        file.look();
        assert_eq!(file.look(), Some(Ok(vec!["h:1".into()])));
    }

    #[test]
    fn a_bad_file_is_told_once() {
        let mut file = Watched::new("bad");
        for (text, told) in [
            (Some("- http://h:1\n- h:2\n"), "endpoints.yaml:2:3"),
            (Some(""), "endpoints.yaml"),
            (None, "there is no such file"),
        ] {
            match text {
                Some(text) => file.write(text),
                None => std::fs::remove_file(&file.looker.list.path).unwrap(),
            }
            assert_eq!(file.look(), None);
            let error = file.look().unwrap().unwrap_err();
            assert!(error.contains(told), "{error}");
            assert_eq!(file.look(), None);
        }
        file.write("[]");
        file.look();
        assert_eq!(file.look(), Some(Ok(vec![])));
    }
}
