//! Selects the function that answers a request.
//! <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-routes.html>
//!
//! "API Gateway selects the route with the most-specific match, using the following priorities: 1. Full match for a
//! route and method. 2. Match for a route and method with a greedy path variable ({proxy+}). 3. The $default route."
//! Not implemented: variables for one segment of a path (`{id}`).

use crate::runtime::Function;
use http::Method;

const DEFAULT: &str = "$default";

/// The routes of an API, each with the function that its integration calls.
#[derive(Clone, Debug)]
pub struct Routes(Vec<Route>);

#[derive(Clone, Debug)]
struct Route {
    key: String,
    resource: Resource,
    function: Function,
}

/// The resource of a route key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Resource {
    /// "The $default route catches requests that don't explicitly match other routes in your API."
    Default,
    /// A path, for one method or (`ANY`) for "all methods that you haven't defined for a resource".
    Path { method: Option<Method>, path: String },
    /// "A greedy path variable catches all child resources of a route." What stands before it, and its name.
    Children { method: Option<Method>, parent: String, variable: String },
}

/// The route that a request takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken<'a> {
    pub(super) key: &'a str,
    pub(super) function: &'a Function,
    /// The name of the greedy variable, and what it caught.
    pub(super) variable: Option<(&'a str, &'a str)>,
}

impl Routes {
    /// Routes by their keys, such as `$default` or `ANY /images/{proxy+}`.
    ///
    /// # Panics
    /// If API Gateway would refuse a key, or this module does not implement it.
    pub fn new(routes: impl IntoIterator<Item = (String, Function)>) -> Self {
        let mut found: Vec<Route> = Vec::new();
        for (key, function) in routes {
            let resource =
                Resource::parse(&key).unwrap_or_else(|| panic!("a route of key `{key}`"));
            let is_new = found.iter().all(|one| one.resource != resource);
            assert!(is_new, "two routes have the key `{key}`");
            found.push(Route { key, resource, function });
        }
        Self(found)
    }

    /// The most specific matching route; of two greedy variables, the one that matches less.
    pub(super) fn take<'a>(&'a self, method: &Method, path: &'a str) -> Option<Taken<'a>> {
        let matches = self.0.iter().filter_map(|route| {
            let (priority, variable) = route.resource.matches(method, path)?;
            let taken = Taken { key: &route.key, function: &route.function, variable };
            Some((priority, taken))
        });
        matches.max_by_key(|(priority, _)| *priority).map(|(_, taken)| taken)
    }
}

/// One function behind `$default`.
impl From<Function> for Routes {
    fn from(function: Function) -> Self {
        Self::new([(DEFAULT.to_owned(), function)])
    }
}

/// Rank of the three kinds, then the length of the path before the variable, then whether the method is named.
type Priority = (u8, usize, bool);

impl Resource {
    fn parse(key: &str) -> Option<Self> {
        if key == DEFAULT {
            return Some(Self::Default);
        }
        let (method, path) = key.split_once(' ')?;
        let method = match method {
            "ANY" => None,
            method => Some(method.parse().ok()?),
        };
        let path = path.starts_with('/').then_some(path)?;
        let Some((parent, variable)) = path.split_once('{') else {
            return Some(Self::Path { method, path: path.to_owned() });
        };
        // "The greedy path variable must be at the end of the resource path."
        let variable = variable.strip_suffix("+}").filter(|name| !name.contains(['{', '}']))?;
        let parent = parent.ends_with('/').then_some(parent)?;
        let (parent, variable) = (parent.to_owned(), variable.to_owned());
        Some(Self::Children { method, parent, variable })
    }

    fn matches<'a>(
        &'a self,
        asked: &Method,
        path: &'a str,
    ) -> Option<(Priority, Option<(&'a str, &'a str)>)> {
        let takes = |method: &Option<Method>| method.as_ref().is_none_or(|method| method == asked);
        match self {
            Self::Default => Some(((0, 0, false), None)),
            Self::Path { method, path: own } => {
                let matches = own == path && takes(method);
                matches.then_some(((2, own.len(), method.is_some()), None))
            }
            Self::Children { method, parent, variable } => {
                let caught = path.strip_prefix(parent.as_str()).filter(|_| takes(method))?;
                let priority = (1, parent.len(), method.is_some());
                Some((priority, Some((variable, caught))))
            }
        }
    }
}
