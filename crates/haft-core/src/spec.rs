//! The specification of a tool: everything about it except how it runs. The registry, the permissions, the limits and
//! the definitions for APIs all read it. Schemas come from Rust types, simplified for models.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Sensitivity;
use crate::limits::Cut;

/// The default limit for the length of a reply, in characters.
pub const DEFAULT_MAX_RESULT: usize = 30_000;

/// The specification of a tool: name, description, schemas, sensitivity and limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Spec {
    /// The name by which the model calls the tool.
    pub name: Arc<str>,
    /// The description for the model.
    pub description: Cow<'static, str>,
    /// The category of the tool.
    pub category: Category,
    /// Whether the tool never changes anything.
    pub read_only: bool,
    /// Whether plan mode permits the tool: it changes nothing but the session itself.
    pub in_plan: bool,
    /// Whether the tool asks the user, and so is offered only where a person can be reached.
    pub asks_user: bool,
    /// How much harm a call can do.
    pub sensitivity: Sensitivity,
    /// The longest reply, in characters.
    pub max_result: usize,
    /// Which part of a longer reply remains.
    pub cut: Cut,
    /// The longest a call may run.
    pub timeout: Option<Duration>,
    /// Whether the tool shows its own progress, so that the client should not.
    pub shows_progress: bool,
    input: Schema,
    output: Option<Schema>,
}

/// The category of a tool. It determines how rules read the pattern in their brackets, and whether a definition for MCP
/// says that the tool reaches beyond the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Category {
    /// Reads or changes files.
    File,
    /// Looks for files, or in files.
    Search,
    /// Runs shell commands.
    Shell,
    /// Runs code that the model wrote.
    Code,
    /// Works with a git repository.
    Git,
    /// Runs a project's own programs: tests, linters, formatters, package managers.
    Project,
    /// Plans: to-do lists, questions, plan mode.
    Planning,
    /// Reaches the web.
    Web,
    /// Belongs to an MCP server.
    Mcp,
    /// Helps with the conversation itself.
    Utility,
    /// Anything else.
    #[default]
    Other,
}

impl Category {
    /// The category as one lower-case word.
    pub fn name(self) -> &'static str {
        match self {
            Category::File => "file",
            Category::Search => "search",
            Category::Shell => "shell",
            Category::Code => "code",
            Category::Git => "git",
            Category::Project => "project",
            Category::Planning => "planning",
            Category::Web => "web",
            Category::Mcp => "mcp",
            Category::Utility => "utility",
            Category::Other => "other",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Spec {
    /// A specification with default values: a tool of unknown category that may change things.
    pub fn of<Input: JsonSchema>(
        name: impl Into<Arc<str>>,
        description: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::with(name, description, Schema::of::<Input>())
    }

    /// A specification with an input schema that is known only at run time, such as that of an MCP server's tool.
    pub fn from_schema(
        name: impl Into<Arc<str>>,
        description: impl Into<Cow<'static, str>>,
        input: Value,
    ) -> Self {
        Self::with(name, description, Schema::from(input))
    }

    fn with(name: impl Into<Arc<str>>, description: impl Into<Cow<'static, str>>, input: Schema) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            category: Category::default(),
            read_only: false,
            in_plan: false,
            asks_user: false,
            sensitivity: Sensitivity::Sensitive,
            max_result: DEFAULT_MAX_RESULT,
            cut: Cut::default(),
            timeout: None,
            shows_progress: false,
            input,
            output: None,
        }
    }

    /// Sets the category.
    pub fn category(mut self, category: Category) -> Self {
        self.category = category;
        self
    }

    /// Declares that the tool never changes anything, and so needs no approval.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self.sensitivity = Sensitivity::Safe;
        self
    }

    /// Declares that the tool changes nothing but the session itself, so that plan mode permits it.
    pub fn in_plan(mut self) -> Self {
        self.in_plan = true;
        self
    }

    /// Declares that the tool asks the user, so that it is offered only where a person can be reached.
    pub fn asks_user(mut self) -> Self {
        self.asks_user = true;
        self
    }

    /// Sets how much harm a call can do.
    pub fn sensitivity(mut self, sensitivity: Sensitivity) -> Self {
        self.sensitivity = sensitivity;
        self
    }

    /// Sets the longest reply, in characters, and which part of a longer one remains.
    pub fn max_result(mut self, chars: usize, cut: Cut) -> Self {
        self.max_result = chars;
        self.cut = cut;
        self
    }

    /// Sets the longest a call may run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Declares that the tool shows its own progress.
    pub fn shows_progress(mut self) -> Self {
        self.shows_progress = true;
        self
    }

    /// Sets the type of the structured value of a reply.
    pub fn output<Output: JsonSchema>(mut self) -> Self {
        self.output = Some(Schema::of_output::<Output>());
        self
    }

    /// Sets the schema of the structured value of a reply, where it is known only at run time.
    pub fn output_from_schema(mut self, output: Value) -> Self {
        self.output = Some(Schema::from(output));
        self
    }

    /// The schema of the input, as models see it: without the fields that only hosts set.
    pub fn input_schema(&self) -> &Value {
        self.input.for_models()
    }

    /// The schema of the input with the fields that only hosts set.
    pub(crate) fn full_input_schema(&self) -> &Value {
        self.input.value()
    }

    /// The schema of the structured value of a reply.
    pub fn output_schema(&self) -> Option<&Value> {
        self.output.as_ref().map(Schema::value)
    }

    /// The first sentence or line of the description.
    pub fn summary(&self) -> &str {
        let line = self.description.lines().next().unwrap_or_default();
        line.split_inclusive(". ").next().unwrap_or(line).trim_end()
    }

    /// The name as a title: `read_file` and `ReadFile` become `Read file`.
    pub fn title(&self) -> String {
        let mut title = String::with_capacity(self.name.len() + 4);
        let mut after_small = false;
        for c in self.name.chars() {
            let is_gap = matches!(c, '_' | '-' | '.' | '/');
            if (is_gap || (c.is_uppercase() && after_small)) && !title.is_empty() && !title.ends_with(' ') {
                title.push(' ');
            }
            if !is_gap {
                let small = c.to_lowercase().next().unwrap_or(c);
                let upper = c.to_uppercase().next().unwrap_or(c);
                title.push(if title.is_empty() { upper } else { small });
            }
            after_small = c.is_lowercase() || c.is_ascii_digit();
        }
        title
    }

    /// An example input that fits the schema, made of the schema's own examples.
    pub fn example(&self) -> Value {
        example(self.input_schema())
    }
}

/// A schema that is generated lazily, on first use.
#[derive(Clone)]
struct Schema {
    value: OnceLock<Value>,
    /// Without host-only fields.
    for_models: OnceLock<Value>,
    make: fn() -> Value,
}

impl Schema {
    fn of<T: JsonSchema>() -> Self {
        Self { value: OnceLock::new(), for_models: OnceLock::new(), make: schema_of::<T> }
    }

    fn of_output<T: JsonSchema>() -> Self {
        Self { value: OnceLock::new(), for_models: OnceLock::new(), make: output_schema_of::<T> }
    }

    fn value(&self) -> &Value {
        self.value.get_or_init(self.make)
    }

    fn for_models(&self) -> &Value {
        self.for_models.get_or_init(|| {
            let mut schema = self.value().clone();
            if let Some(Value::Object(properties)) = schema.get_mut("properties") {
                properties.retain(|_, property| property.get(HOST_ONLY).is_none());
            }
            schema
        })
    }
}

/// Marks a field of an input that hosts set and models do not know, by `#[schemars(extend("x-host-only" = true))]`.
const HOST_ONLY: &str = "x-host-only";

impl From<Value> for Schema {
    fn from(value: Value) -> Self {
        Self { value: OnceLock::from(value), for_models: OnceLock::new(), make: || Value::Bool(true) }
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

/// The schema of an input type, in the flat form that models read best.
fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema, Side::Input);
    if let Value::Object(root) = &mut schema {
        root.remove("description");
        root.entry("type").or_insert(json!("object"));
        if root["type"] == "object" {
            root.entry("properties").or_insert(json!({}));
            root.entry("additionalProperties").or_insert(json!(false));
        }
    }
    schema
}

/// The schema of an output type. It allows additional properties, because the engine adds notes and cut marks.
fn output_schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema, Side::Output);
    if let Value::Object(root) = &mut schema {
        root.remove("description");
    }
    schema
}

/// Whether a schema describes an input or an output.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Input,
    Output,
}

/// Removes what is useless to a model: Rust's names of types and number formats and, in an input, `null` for optional
/// fields. Forbids additional properties in an input.
fn simplify(schema: &mut Value, side: Side) {
    let Value::Object(map) = schema else { return };
    map.remove("title");
    if map.get("format").and_then(Value::as_str).is_some_and(is_rust_number) {
        map.remove("format");
    }
    if map.get("default").is_some_and(Value::is_null) {
        map.remove("default");
    }
    let required: Vec<String> = strings(map.get("required"));
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            if side == Side::Input && !required.contains(name) {
                without_null(property);
            }
        }
        if side == Side::Input && !map.contains_key("additionalProperties") {
            map.insert("additionalProperties".into(), Value::Bool(false));
        }
    }
    for (key, value) in map.iter_mut() {
        match value {
            Value::Object(children)
                if matches!(key.as_str(), "properties" | "$defs" | "patternProperties") =>
            {
                children.values_mut().for_each(|child| simplify(child, side));
            }
            Value::Array(children) if matches!(key.as_str(), "anyOf" | "oneOf" | "allOf" | "prefixItems") => {
                children.iter_mut().for_each(|child| simplify(child, side));
            }
            Value::Object(_) if matches!(key.as_str(), "items" | "additionalProperties" | "not") => {
                simplify(value, side)
            }
            _ => {}
        }
    }
}

fn is_rust_number(format: &str) -> bool {
    format.starts_with("int") || format.starts_with("uint") || matches!(format, "float" | "double")
}

fn without_null(property: &mut Value) {
    let Value::Object(map) = property else { return };
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(options)) = map.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
    if let Some(Value::Array(branches)) = map.get_mut("anyOf") {
        branches.retain(|branch| branch.get("type").is_none_or(|kind| kind != "null"));
        if branches.len() == 1
            && let Some(Value::Object(only)) = branches.pop()
        {
            map.remove("anyOf");
            for (key, value) in only {
                map.entry(key).or_insert(value);
            }
        }
    }
}

pub(crate) fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn example(schema: &Value) -> Value {
    let given = schema.get("examples").and_then(|examples| examples.get(0));
    if let Some(value) =
        given.or_else(|| schema.get("const")).or_else(|| schema.get("enum").and_then(|all| all.get(0)))
    {
        return value.clone();
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(first) = schema.get(key).and_then(|branches| branches.get(0)) {
            return example(first);
        }
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
        Some(kind) => kind.as_str().unwrap_or_default(),
        None => "",
    };
    match kind {
        "object" => {
            let required = strings(schema.get("required"));
            let properties = schema.get("properties").and_then(Value::as_object);
            let shown = properties.into_iter().flatten().filter(|(name, _)| required.contains(name));
            Value::Object(
                shown.map(|(name, property)| (name.clone(), example(property))).collect::<Map<_, _>>(),
            )
        }
        "array" => match schema.get("prefixItems").and_then(Value::as_array) {
            Some(items) => items.iter().map(example).collect(),
            None => json!([schema.get("items").map_or(json!("…"), example)]),
        },
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(true),
        _ => json!("…"),
    }
}
