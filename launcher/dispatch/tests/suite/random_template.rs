//! Random pod templates, generated from the API server's own schema of a pod template: so no field
//! is missing, whatever Canyon's libraries know.

use serde_json::{Map, Value, json};

/// The schema of a pod template, with all that it refers to.
pub(crate) struct Schemas(Value);

/// `SplitMix64` (Steele, Lea, Flood 2014): a seed gives the same templates everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    fn word(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }

    fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Values that have a meaning somewhere in a pod: existing names, dangerous values, paths.
const WORDS: [&str; 40] = [
    "a",
    "b",
    "cache",
    "canyon-runner",
    "canyon-work",
    "canyon-api-token",
    "main",
    "default",
    "admin",
    "RuntimeDefault",
    "Unconfined",
    "Localhost",
    "Unmasked",
    "Default",
    "Always",
    "Never",
    "OnFailure",
    "IfNotPresent",
    "None",
    "Bidirectional",
    "ClusterFirst",
    "ClusterFirstWithHostNet",
    "linux",
    "windows",
    "spc_t",
    "root",
    "NET_ADMIN",
    "ALL",
    "kernel.shm_rmid_forced",
    "/",
    "/data",
    "/proc",
    "/canyon/x",
    "/var/run/secrets/canyon",
    "../x",
    "TCP",
    "CANYON_API_URL",
    "PATH",
    "Equal",
    "DoNotSchedule",
];

impl Schemas {
    /// `document` is the API server's OpenAPI document (version 3) of batch/v1.
    pub(crate) fn new(document: &Value) -> Self {
        Self(document["components"]["schemas"].clone())
    }

    /// The next template.
    pub(crate) fn template(&self, random: &mut Random) -> Value {
        let mut template = json!({});
        let pod = self.named("io.k8s.api.core.v1.PodTemplateSpec");
        let spec = self.named("io.k8s.api.core.v1.PodSpec");
        let container = self.named("io.k8s.api.core.v1.Container");
        for _ in 0..=random.below(3) {
            match random.below(10) {
                0 => {
                    let metadata = self.resolve(&pod["properties"]["metadata"]);
                    self.put(&mut template["metadata"], metadata, random);
                }
                1..=4 => self.put(&mut template["spec"], spec, random),
                5 => {
                    let name = random.one(&["init", "canyon-runner", "proxy"]);
                    let mut init = json!({ "name": name, "image": "a" });
                    self.put(&mut init, container, random);
                    template["spec"]["initContainers"] = json!([init]);
                }
                _ => {
                    let made = template.pointer("/spec/containers/0").cloned();
                    let mut runner = made.unwrap_or_else(|| json!({}));
                    if !runner.is_object() {
                        runner = json!({});
                    }
                    self.put(&mut runner, container, random);
                    runner["name"] = json!("canyon-runner");
                    template["spec"]["containers"] = json!([runner]);
                }
            }
        }
        template
    }

    /// Sets a random field of `object`, which has the schema `schema`.
    fn put(&self, object: &mut Value, schema: &Value, random: &mut Random) {
        let fields: Vec<_> = schema["properties"].as_object().unwrap().iter().collect();
        let (name, schema) = random.one(&fields);
        object[name.as_str()] = self.value(name, schema, 4, random);
    }

    fn named(&self, name: &str) -> &Value {
        &self.0[name]
    }

    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let inner = schema.get("allOf").map_or(schema, |all| &all[0]);
        match inner["$ref"].as_str() {
            Some(name) => self.named(name.rsplit('/').next().unwrap()),
            None => inner,
        }
    }

    fn value(&self, name: &str, schema: &Value, depth: usize, random: &mut Random) -> Value {
        let schema = self.resolve(schema);
        if schema.get("oneOf").is_some() {
            // A quantity, or an integer or string.
            return random.one(&[json!("1"), json!("64Mi"), json!(1)]).clone();
        }
        match schema["type"].as_str().unwrap_or("object") {
            "boolean" => json!(random.happens(50)),
            "integer" | "number" => {
                random.one(&[-1, 0, 1, 2, 30, 80, 1_000, 65_534].map(|n| json!(n))).clone()
            }
            "array" => {
                let items = 1 + random.below(2);
                (0..items)
                    .map(|_| self.value(name, &schema["items"], depth.saturating_sub(1), random))
                    .collect()
            }
            "string" => json!(text(name, random)),
            _ => self.object(schema, depth, random),
        }
    }

    fn object(&self, schema: &Value, depth: usize, random: &mut Random) -> Value {
        let mut object = Map::new();
        if let Some(inner) = schema.get("additionalProperties") {
            let key = *random.one(&["a", "team", "cpu", "memory", "canyon.dev/runner", "io.x/y"]);
            object.insert(key.to_owned(), self.value(key, inner, depth.saturating_sub(1), random));
        }
        let fields: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
        let required: Vec<_> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut chosen: Vec<_> =
            fields.iter().filter(|(name, _)| required.contains(&name.as_str())).collect();
        if !fields.is_empty() && depth > 0 {
            for _ in 0..=random.below(2) {
                chosen.push(random.one(&fields));
            }
        }
        for (name, inner) in chosen {
            object
                .insert((*name).clone(), self.value(name, inner, depth.saturating_sub(1), random));
        }
        Value::Object(object)
    }
}

/// Mostly a value that fits the field, so that not every template is invalid.
fn text(name: &str, random: &mut Random) -> &'static str {
    if random.happens(40) {
        return random.word(&WORDS);
    }
    match name {
        "mountPath" | "path" | "subPath" => {
            random.word(&["/data", "/cache/x", "data", "/etc", "/proc"])
        }
        "imagePullPolicy" => random.word(&["Always", "IfNotPresent", "Never"]),
        "type" => random.word(&["RuntimeDefault", "Unconfined", "Localhost", "Utf8"]),
        "dnsPolicy" => random.word(&["Default", "ClusterFirst", "ClusterFirstWithHostNet"]),
        "medium" => "Memory",
        "protocol" => "TCP",
        "operator" => random.word(&["Exists", "In"]),
        "effect" => random.word(&["NoSchedule", "NoExecute"]),
        "ip" | "hostIP" => "10.0.0.1",
        "fieldPath" => random.word(&["metadata.name", "status.hostIP"]),
        "whenUnsatisfiable" => random.word(&["DoNotSchedule", "ScheduleAnyway"]),
        "fsGroupChangePolicy" => random.word(&["Always", "OnRootMismatch"]),
        "preemptionPolicy" => random.word(&["Never", "PreemptLowerPriority"]),
        "resource" => random.word(&["limits.cpu", "requests.memory"]),
        _ => random.word(&["a", "b", "cache"]),
    }
}
