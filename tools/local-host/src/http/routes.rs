//! Finds the trigger for a request path.

use std::fmt;

use anyhow::Context as _;
use routefinder::{Captures, RouteSpec, Router};

/// The prefix of the paths that the host itself serves.
pub const WELL_KNOWN_PREFIX: &str = "/.well-known/spin/";

/// The public routes of an application.
#[derive(Debug)]
pub struct Routes<T> {
    router: Router<Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    /// As written in the manifest.
    raw: String,
    /// With a leading slash and without a trailing one.
    based: String,
    target: T,
}

/// A route that matches a path.
#[derive(Debug)]
pub struct RouteMatch<'a, T> {
    /// The target of the route.
    pub target: &'a T,
    /// The route as written in the manifest.
    pub raw: &'a str,
    /// The route with a leading slash and without a trailing one.
    pub based: &'a str,
    captures: Captures<'a, 'a>,
    path: &'a str,
}

impl<T> Routes<T> {
    /// Builds the routes. A later duplicate replaces an earlier one, which is passed to `on_duplicate`.
    ///
    /// # Errors
    /// If a route cannot be parsed.
    pub fn build(
        routes: impl IntoIterator<Item = (String, T)>,
        mut on_duplicate: impl FnMut(&str, &T),
    ) -> anyhow::Result<Self> {
        let mut entries: Vec<Entry<T>> = Vec::new();
        for (raw, target) in routes {
            let based = normalize(&raw);
            let entry = Entry { raw, based, target };
            match entries.iter_mut().find(|existing| existing.raw == entry.raw) {
                Some(existing) => {
                    on_duplicate(&existing.raw, &existing.target);
                    *existing = entry;
                }
                None => entries.push(entry),
            }
        }
        let mut router = Router::new();
        for entry in entries {
            let spec = match entry.based.strip_suffix("/...") {
                Some(prefix) => format!("{prefix}/*"),
                None => entry.based.clone(),
            };
            let spec = RouteSpec::try_from(spec)
                .map_err(anyhow::Error::msg)
                .with_context(|| format!("the route {:?} is malformed", entry.raw))?;
            router.add(spec, entry).map_err(|error| anyhow::anyhow!("{error}"))?;
        }
        Ok(Self { router })
    }

    /// Returns the most specific route that matches a path, compared segment by segment.
    pub fn find<'a>(&'a self, path: &'a str) -> Option<RouteMatch<'a, T>> {
        let best = self.router.best_match(path)?;
        let entry = best.handler();
        Some(RouteMatch {
            target: &entry.target,
            raw: &entry.raw,
            based: &entry.based,
            captures: best.captures(),
            path,
        })
    }

    /// Returns every route with its target, for the list that is printed at start-up.
    pub fn iter(&self) -> impl Iterator<Item = (DisplayRoute<'_>, &T)> {
        self.router.iter().map(|(_, entry)| (DisplayRoute(&entry.based), &entry.target))
    }

    /// Returns whether a route is under [`WELL_KNOWN_PREFIX`], where it is never reached.
    pub fn has_reserved_route(&self) -> bool {
        self.router.iter().any(|(_, entry)| entry.based.starts_with(WELL_KNOWN_PREFIX))
    }
}

impl<T> RouteMatch<'_, T> {
    /// Returns the values of the route's `:name` segments.
    pub fn named(&self) -> impl Iterator<Item = (&str, &str)> {
        self.captures.iter()
    }

    /// Returns the part of the path that the trailing wildcard matched.
    pub fn trailing(&self) -> String {
        let Some(rest) = self.captures.wildcard() else { return String::new() };
        // The wildcard includes a trailing slash, which routefinder removes.
        match (rest.is_empty(), self.path.ends_with('/')) {
            (true, false) => String::new(),
            (true, true) => "/".into(),
            (false, false) => format!("/{rest}"),
            (false, true) => format!("/{rest}/"),
        }
    }
}

/// Returns a route without its wildcard.
pub fn without_wildcard(route: &str) -> &str {
    route.strip_suffix("/...").unwrap_or(route)
}

fn normalize(route: &str) -> String {
    let route = route.strip_suffix('/').unwrap_or(route);
    if route.is_empty() || route.starts_with('/') { route.to_owned() } else { format!("/{route}") }
}

/// Formats a route for the list that is printed at start-up.
pub struct DisplayRoute<'a>(&'a str);

impl fmt::Display for DisplayRoute<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.strip_suffix("/...").or_else(|| self.0.strip_suffix("/*")) {
            Some(prefix) => write!(f, "{prefix} (wildcard)"),
            None => f.write_str(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(list: &[&str]) -> Routes<String> {
        let list = list.iter().map(|&route| (route.to_owned(), route.to_owned()));
        Routes::build(list, |_, _| {}).unwrap()
    }

    fn find(list: &[&str], path: &str) -> Option<String> {
        routes(list).find(path).map(|found| found.target.clone())
    }

    #[test]
    fn the_most_specific_route_wins_in_any_order() {
        for list in
            [["/...", "/api/...", "/api/:id", "/api/list", "/"], ["/", "/api/list", "/api/:id", "/api/...", "/..."]]
        {
            for (path, expected) in [
                ("/", "/"),
                ("/api/list", "/api/list"),
                ("/api/list/", "/api/list"),
                ("/api/7", "/api/:id"),
                ("/api/7/orders", "/api/..."),
                ("/api", "/api/..."),
                ("/else/where", "/..."),
            ] {
                assert_eq!(find(&list, path).as_deref(), Some(expected), "{path}");
            }
        }
        assert_eq!(find(&["/api"], "/apis"), None);
    }

    #[test]
    fn a_parameter_may_precede_the_wildcard() {
        let routes = routes(&["/activities/:activity/..."]);
        let found = routes.find("/activities/a1/orders/").unwrap();
        assert_eq!(found.named().collect::<Vec<_>>(), [("activity", "a1")]);
        assert_eq!(found.trailing(), "/orders/");
        assert_eq!(routes.find("/activities/a1").unwrap().trailing(), "");
        assert_eq!(routes.find("/activities/a1/").unwrap().trailing(), "/");
    }

    #[test]
    fn of_equal_routes_the_last_one_wins_and_the_other_is_reported() {
        let list = [("/a", 1), ("/b", 2), ("/a", 3)].map(|(route, n)| (route.to_owned(), n));
        let mut reported = Vec::new();
        let routes = Routes::build(list, |route, target| reported.push((route.to_owned(), *target)));
        assert_eq!(*routes.unwrap().find("/a").unwrap().target, 3);
        assert_eq!(reported, [("/a".to_owned(), 1)]);
    }

    #[test]
    fn wildcards_are_displayed_in_words() {
        let routes = routes(&["/api/...", "/..."]);
        let shown: Vec<String> = routes.iter().map(|(route, _)| route.to_string()).collect();
        assert!(shown.contains(&"/api (wildcard)".to_owned()), "{shown:?}");
        assert!(shown.contains(&" (wildcard)".to_owned()), "{shown:?}");
    }
}
