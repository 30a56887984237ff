//! How one dialect spells an operation, typed for authors and erased for the registry. Nothing here runs a
//! call; the engine does.

use std::borrow::Cow;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::permissions::Approval;
use crate::{Claims, Context, Fault, Operation, Preview, Reply, Spec, decode, preview};

/// A boxed future, as erased traits return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How one dialect spells an operation.
pub trait Tool: 'static {
    /// The name that the model uses.
    const NAME: &'static str;
    /// What the model is told; usually `include_str!` of a text file beside the code.
    const DESCRIPTION: &'static str;
    /// The model's words. Its schema is the tool's schema.
    type Input: DeserializeOwned + JsonSchema + Send;
    /// The engine's words.
    type Op: Operation;

    /// Says what else there is to know of the tool.
    fn spec(spec: Spec) -> Spec {
        spec
    }

    /// Why the tool cannot be used here and now; `None` where it can.
    fn unavailable(cx: &Context) -> Option<Fault> {
        Self::Op::unavailable(cx)
    }

    /// From the model's words to the engine's.
    fn lower(input: &Self::Input, cx: &Context) -> Result<Self::Op, Fault>;

    /// Whether what the input means depends on what earlier calls of the session do, such as "the last change". The
    /// engine then lowers it once those have ended.
    fn refers_to_earlier_calls(_input: &Self::Input) -> bool {
        false
    }

    /// Whether somebody must be asked first.
    fn approval(_input: &Self::Input, _op: &Self::Op, _cx: &Context) -> Approval {
        Approval::BySensitivity
    }

    /// From what came out to what the model reads, or a fault where it cannot be shown in this tool's form.
    fn render(
        input: &Self::Input,
        output: <Self::Op as Operation>::Output,
        cx: &Context,
    ) -> Result<Reply, Fault>;

    /// One line for people that says what is about to happen.
    fn preview_use(_input: &Self::Input) -> Option<String> {
        None
    }
}

/// Any tool, types erased: what the registry holds.
pub trait DynTool: Send + Sync + 'static {
    /// What there is to know of the tool.
    fn spec(&self) -> &Spec;

    /// What the model is told, which may depend on where it is told.
    fn describe(&self, _cx: &Context) -> Cow<'_, str> {
        Cow::Borrowed(&self.spec().description)
    }

    /// Why the tool cannot be used here and now; `None` where it can. It is then not offered, and a call is answered with
    /// this fault.
    fn unavailable(&self, _cx: &Context) -> Option<Fault> {
        None
    }

    /// See [`Tool::refers_to_earlier_calls`].
    fn refers_to_earlier_calls(&self, _input: &Value) -> bool {
        false
    }

    /// Takes an input that fits the schema and makes it ready to run. Changes nothing.
    fn prepare(&self, input: &Value, cx: &Context) -> Result<Box<dyn Prepared>, Fault>;

    /// One line for people that says what is about to happen.
    fn preview_use(&self, _input: &Value) -> Option<String> {
        None
    }

    /// A few lines for people that show what came out.
    fn preview_result(&self, reply: &Reply, max_lines: usize) -> Vec<String> {
        preview::result(reply, max_lines)
    }
}

/// A call that is ready to run.
pub trait Prepared: Send {
    /// Everything it may touch.
    fn claims(&self) -> Claims;

    /// Whether somebody must be asked first.
    fn approval(&self, _cx: &Context) -> Approval {
        Approval::BySensitivity
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

    /// See [`Operation::keep_parts`].
    fn keep_parts(&mut self, _parts: &[usize], _cx: &Context) -> Result<String, Fault> {
        Err(Fault::failed("this change is made as a whole or not at all"))
    }

    /// Does it, and renders what came out.
    fn run(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<Reply, Fault>>;
}

/// A [`Tool`] as the registry holds it.
pub struct Typed<T> {
    spec: Spec,
    tool: PhantomData<fn() -> T>,
}

impl<T: Tool> Typed<T> {
    /// Erases the tool.
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

    fn fingerprint(&self, cx: &Context) -> Option<u64> {
        self.op.fingerprint(cx)
    }

    fn check<'a>(&'a mut self, cx: &'a Context) -> BoxFuture<'a, Result<Option<Preview>, Fault>> {
        Box::pin(self.op.check(cx))
    }

    fn preview(&mut self, cx: &Context) -> Option<Preview> {
        self.op.preview(cx)
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
