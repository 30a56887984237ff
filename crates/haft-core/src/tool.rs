//! Tools: [`Tool`] is typed, for authors; [`DynTool`] and [`Prepared`] are the erased forms that the registry and the
//! engine use. Knows nothing of scheduling or permissions; the engine runs calls.

use std::borrow::Cow;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::permissions::Approval;
use crate::trials::TrialOffer;
use crate::{Claims, Context, Fault, Operation, Preview, Reply, Spec, decode, preview};

/// A boxed future, as the object-safe traits return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A tool: how one dialect presents an [`Operation`] to a model. For a single tool, [`function`](crate::function) is
/// shorter.
///
/// ```
/// use haft_core::{Claims, Context, Engine, Fault, Operation, Reply, Spec, Tool, Typed, Workspace};
/// # use schemars::JsonSchema; use serde::Deserialize;
///
/// /// The operation: no JSON, no tool name.
/// struct Repeat {
///     text: String,
///     times: usize,
/// }
///
/// impl Operation for Repeat {
///     type Output = String;
///
///     fn claims(&self) -> Claims {
///         Claims::none()
///     }
///
///     async fn run(self, _cx: &Context) -> Result<String, Fault> {
///         Ok(self.text.repeat(self.times))
///     }
/// }
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Input {
///     /// The text to repeat
///     text: String,
/// }
///
/// /// The tool: name, description, input type, and the conversion in both directions.
/// struct Twice;
///
/// impl Tool for Twice {
///     const NAME: &'static str = "twice";
///     const DESCRIPTION: &'static str = "Repeats a text";
///     type Input = Input;
///     type Op = Repeat;
///
///     fn spec(spec: Spec) -> Spec {
///         spec.read_only()
///     }
///
///     fn lower(input: &Input, _cx: &Context) -> Result<Repeat, Fault> {
///         Ok(Repeat { text: input.text.clone(), times: 2 })
///     }
///
///     fn render(_input: &Input, output: String, _cx: &Context) -> Result<Reply, Fault> {
///         Ok(Reply::text(output))
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workspace = Workspace::open(".".as_ref())?;
/// let session = Engine::default().session(workspace).tool(Typed::<Twice>::new()).start();
/// assert!(session.tools().get("twice").is_some());
/// # Ok(())
/// # }
/// ```
pub trait Tool: 'static {
    /// The name by which the model calls the tool.
    const NAME: &'static str;
    /// The description for the model; usually `include_str!` of a text file beside the code.
    const DESCRIPTION: &'static str;
    /// The input type. Its schema is the tool's schema.
    type Input: DeserializeOwned + JsonSchema + Send;
    /// The operation that the tool runs.
    type Op: Operation;

    /// Completes the tool's specification: category, sensitivity, limits.
    fn spec(spec: Spec) -> Spec {
        spec
    }

    /// Why the tool is not available in this session; `None` if it is.
    fn unavailable(cx: &Context) -> Option<Fault> {
        Self::Op::unavailable(cx)
    }

    /// Converts the input into the operation, with every path resolved.
    fn lower(input: &Self::Input, cx: &Context) -> Result<Self::Op, Fault>;

    /// Whether the meaning of the input depends on earlier calls of the session, such as "the last change". The engine
    /// then calls [`lower`](Tool::lower) once those have ended.
    fn refers_to_earlier_calls(_input: &Self::Input) -> bool {
        false
    }

    /// Whether the call needs approval.
    fn approval(_input: &Self::Input, _op: &Self::Op, _cx: &Context) -> Approval {
        Approval::BySensitivity
    }

    /// Converts the output into the reply, or a fault if this tool's form cannot show it.
    fn render(
        input: &Self::Input,
        output: <Self::Op as Operation>::Output,
        cx: &Context,
    ) -> Result<Reply, Fault>;

    /// One line that tells a person what the call is about to do.
    fn preview_use(_input: &Self::Input) -> Option<String> {
        None
    }

    /// A few lines that show a person the result. Default: the first lines of the text, or the values of a structured
    /// reply.
    fn preview_result(reply: &Reply, max_lines: usize) -> Vec<String> {
        preview::result(reply, max_lines)
    }
}

/// A tool with its types erased, as the [`Registry`](crate::Registry) holds it. Implement it directly for tools whose
/// schema is known only at run time; others implement [`Tool`], or use [`function`](crate::function).
///
/// ```
/// use haft_core::{BoxFuture, Claims, Context, DynTool, Fault, Prepared, Reply, Spec};
/// use serde_json::{Value, json};
///
/// /// A tool that a configuration file defines.
/// struct Canned {
///     spec: Spec,
///     reply: String,
/// }
///
/// impl DynTool for Canned {
///     fn spec(&self) -> &Spec {
///         &self.spec
///     }
///
///     fn prepare(&self, _input: &Value, _cx: &Context) -> Result<Box<dyn Prepared>, Fault> {
///         Ok(Box::new(CannedCall(self.reply.clone())))
///     }
/// }
///
/// struct CannedCall(String);
///
/// impl Prepared for CannedCall {
///     fn claims(&self) -> Claims {
///         Claims::none()
///     }
///
///     fn run(self: Box<Self>, _cx: Context) -> BoxFuture<'static, Result<Reply, Fault>> {
///         Box::pin(async move { Ok(Reply::text(self.0)) })
///     }
/// }
///
/// let schema = json!({"type": "object", "properties": {}});
/// let tool = Canned { spec: Spec::from_schema("motd", "The message of the day", schema).read_only(), reply: "hi".into() };
/// assert_eq!(tool.spec().title(), "Motd");
/// ```
pub trait DynTool: Send + Sync + 'static {
    /// The tool's specification.
    fn spec(&self) -> &Spec;

    /// The description for the model, which may depend on the session.
    fn describe(&self, _cx: &Context) -> Cow<'_, str> {
        Cow::Borrowed(&self.spec().description)
    }

    /// Why the tool is not available in this session; `None` if it is. An unavailable tool is not offered to the model, and
    /// a call of it gets this fault.
    fn unavailable(&self, _cx: &Context) -> Option<Fault> {
        None
    }

    /// See [`Tool::refers_to_earlier_calls`].
    fn refers_to_earlier_calls(&self, _input: &Value) -> bool {
        false
    }

    /// Prepares a call with an input that fits the schema. Must not change anything.
    fn prepare(&self, input: &Value, cx: &Context) -> Result<Box<dyn Prepared>, Fault>;

    /// One line that tells a person what the call is about to do.
    fn preview_use(&self, _input: &Value) -> Option<String> {
        None
    }

    /// A few lines that show a person the result.
    fn preview_result(&self, reply: &Reply, max_lines: usize) -> Vec<String> {
        preview::result(reply, max_lines)
    }
}

/// A call that is ready to run: what [`DynTool::prepare`] returns.
///
/// ```
/// use haft_core::permissions::Approval;
/// use haft_core::{BoxFuture, Claims, Context, Fault, Prepared, Reply, Resource};
///
/// struct Deploy {
///     host: String,
/// }
///
/// impl Prepared for Deploy {
///     fn claims(&self) -> Claims {
///         Claims::none().write(Resource::Host(self.host.clone()))
///     }
///
///     fn approval(&self, _cx: &Context) -> Approval {
///         Approval::NeededAlways(format!("it changes what runs on {}", self.host))
///     }
///
///     fn run(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<Reply, Fault>> {
///         Box::pin(async move {
///             cx.output("uploading\n");
///             Ok(Reply::text(format!("deployed to {}", self.host)))
///         })
///     }
/// }
///
/// let call = Deploy { host: "example.org".to_owned() };
/// assert!(!call.claims().is_read_only());
/// ```
pub trait Prepared: Send {
    /// Everything the call may touch.
    fn claims(&self) -> Claims;

    /// Whether the call needs approval.
    fn approval(&self, _cx: &Context) -> Approval {
        Approval::BySensitivity
    }

    /// See [`Operation::missing`].
    fn missing(&self) -> Vec<String> {
        Vec::new()
    }

    /// See [`Operation::fingerprint`].
    fn fingerprint(&self, _cx: &Context) -> Option<u64> {
        None
    }

    /// See [`Operation::check`].
    fn check<'a>(&'a mut self, _cx: &'a Context) -> BoxFuture<'a, Result<Option<Preview>, Fault>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// See [`Operation::preview`].
    fn preview(&mut self, _cx: &Context) -> Option<Preview> {
        None
    }

    /// See [`Operation::can_be_given_network`].
    fn can_be_given_network(&self, _cx: &Context) -> bool {
        false
    }

    /// See [`Operation::trial`].
    fn trial(&self, _cx: &Context) -> Option<TrialOffer> {
        None
    }

    /// See [`Operation::trial_obstacle`].
    fn trial_obstacle(&self, _cx: &Context) -> Option<String> {
        None
    }

    /// See [`Operation::keep_parts`].
    fn keep_parts(&mut self, _parts: &[usize], _cx: &Context) -> Result<String, Fault> {
        Err(Fault::failed("this change is made as a whole or not at all"))
    }

    /// Runs the call, and renders the reply.
    fn run(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<Reply, Fault>>;
}

/// Adapts a [`Tool`] to [`DynTool`], as the registry holds it.
pub struct Typed<T> {
    spec: Spec,
    tool: PhantomData<fn() -> T>,
}

impl<T: Tool> Typed<T> {
    /// Erases the types of a tool.
    pub fn new() -> Self {
        Self { spec: T::spec(Spec::of::<T::Input>(T::NAME, T::DESCRIPTION)), tool: PhantomData }
    }
}

impl<T: Tool> Default for Typed<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Tool> DynTool for Typed<T> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn unavailable(&self, cx: &Context) -> Option<Fault> {
        T::unavailable(cx)
    }

    fn refers_to_earlier_calls(&self, input: &Value) -> bool {
        decode::typed(input, &self.spec).is_ok_and(|input| T::refers_to_earlier_calls(&input))
    }

    fn prepare(&self, input: &Value, cx: &Context) -> Result<Box<dyn Prepared>, Fault> {
        let input: T::Input = decode::typed(input, &self.spec)?;
        let op = T::lower(&input, cx)?;
        Ok(Box::new(TypedCall::<T> { input, op }))
    }

    fn preview_use(&self, input: &Value) -> Option<String> {
        T::preview_use(&decode::typed(input, &self.spec).ok()?)
    }

    fn preview_result(&self, reply: &Reply, max_lines: usize) -> Vec<String> {
        T::preview_result(reply, max_lines)
    }
}

struct TypedCall<T: Tool> {
    input: T::Input,
    op: T::Op,
}

impl<T: Tool> Prepared for TypedCall<T> {
    fn claims(&self) -> Claims {
        self.op.claims()
    }

    fn approval(&self, cx: &Context) -> Approval {
        T::approval(&self.input, &self.op, cx)
    }

    fn missing(&self) -> Vec<String> {
        self.op.missing()
    }

    fn fingerprint(&self, cx: &Context) -> Option<u64> {
        self.op.fingerprint(cx)
    }

    fn check<'a>(&'a mut self, cx: &'a Context) -> BoxFuture<'a, Result<Option<Preview>, Fault>> {
        Box::pin(self.op.check(cx))
    }

    fn preview(&mut self, cx: &Context) -> Option<Preview> {
        self.op.preview(cx)
    }

    fn can_be_given_network(&self, cx: &Context) -> bool {
        self.op.can_be_given_network(cx)
    }

    fn trial(&self, cx: &Context) -> Option<TrialOffer> {
        self.op.trial(cx)
    }

    fn trial_obstacle(&self, cx: &Context) -> Option<String> {
        self.op.trial_obstacle(cx)
    }

    fn keep_parts(&mut self, parts: &[usize], cx: &Context) -> Result<String, Fault> {
        self.op.keep_parts(parts, cx)
    }

    fn run(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<Reply, Fault>> {
        let TypedCall { input, op } = *self;
        Box::pin(async move {
            let output = op.run(&cx).await?;
            T::render(&input, output, &cx)
        })
    }
}
