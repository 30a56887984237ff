//! Tools made of closures with a typed input: the shortest way to add a tool of one's own.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::replies::IntoReply;
use crate::{BoxFuture, Claims, Context, DynTool, Fault, Prepared, Reply, Resource, Spec, decode, preview};

type Body<I> = dyn Fn(I, Context) -> BoxFuture<'static, Result<Reply, Fault>> + Send + Sync;
type ClaimsOf<I> = dyn Fn(&I, &Context) -> Result<Claims, Fault> + Send + Sync;
type PreviewUse<I> = dyn Fn(&I) -> String + Send + Sync;
type PreviewResult = dyn Fn(&Reply, usize) -> Vec<String> + Send + Sync;

/// A tool made of a closure: see [`function`] and [`blocking_function`].
pub struct Function<I> {
    spec: Spec,
    body: Arc<Body<I>>,
    claims: Option<Arc<ClaimsOf<I>>>,
    preview_use: Option<Box<PreviewUse<I>>>,
    preview_result: Option<Box<PreviewResult>>,
}

/// Makes a tool of an async closure. By default it may change anything, so it runs alone and needs approval: see
/// [`Function::read_only`] and [`Function::claims`].
///
/// ```
/// # use schemars::JsonSchema; use serde::Deserialize;
/// #[derive(Deserialize, JsonSchema)]
/// struct Count {
///     /// The text whose words are counted
///     text: String,
/// }
///
/// let tool = haft_core::function("word_count", "Counts the words of a text", async |input: Count, _cx| {
///     format!("{} words", input.text.split_whitespace().count())
/// })
/// .read_only();
/// # let _ = tool;
/// ```
pub fn function<I, F, R>(
    name: impl Into<Arc<str>>,
    description: impl Into<Cow<'static, str>>,
    body: F,
) -> Function<I>
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    F: AsyncBody<I, R>,
    R: IntoReply,
{
    Function::new(name, description, move |input, cx| body.start(input, cx))
}

/// Makes a tool of a closure that blocks or computes for long. It runs on tokio's pool of blocking threads.
///
/// A thread cannot be stopped from outside: a call that is cancelled or times out is answered at once and releases its
/// claims, while the closure goes on. A closure that may run for long should poll [`Context::is_cancelled`].
pub fn blocking_function<I, F, R>(
    name: impl Into<Arc<str>>,
    description: impl Into<Cow<'static, str>>,
    body: F,
) -> Function<I>
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(I, Context) -> R + Send + Sync + 'static,
    R: IntoReply,
{
    let body = Arc::new(body);
    Function::new(name, description, move |input, cx| {
        let body = body.clone();
        Box::pin(async move {
            let running = tokio::task::spawn_blocking(move || body(input, cx).into_reply());
            match running.await {
                Ok(outcome) => outcome,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(error) => Err(Fault::failed(error.to_string())),
            }
        })
    })
}

/// An async closure as the body of a tool. Implemented for every closure that returns a future.
pub trait AsyncBody<I, R>: Send + Sync + 'static {
    /// Starts the work.
    fn start(&self, input: I, cx: Context) -> BoxFuture<'static, Result<Reply, Fault>>;
}

impl<I, R, F, Fut> AsyncBody<I, R> for F
where
    F: Fn(I, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoReply,
{
    fn start(&self, input: I, cx: Context) -> BoxFuture<'static, Result<Reply, Fault>> {
        let work = self(input, cx);
        Box::pin(async move { work.await.into_reply() })
    }
}

impl<I: DeserializeOwned + JsonSchema + Send + 'static> Function<I> {
    fn new(
        name: impl Into<Arc<str>>,
        description: impl Into<Cow<'static, str>>,
        body: impl Fn(I, Context) -> BoxFuture<'static, Result<Reply, Fault>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            spec: Spec::of::<I>(name, description),
            body: Arc::new(body),
            claims: None,
            preview_use: None,
            preview_result: None,
        }
    }

    /// Declares that the tool never changes anything: it needs no approval and runs concurrently with other readers.
    pub fn read_only(self) -> Self {
        self.about(Spec::read_only)
    }

    /// Changes the tool's specification, such as its category or its timeout.
    pub fn about(mut self, say: impl FnOnce(Spec) -> Spec) -> Self {
        self.spec = say(self.spec);
        self
    }

    /// Declares what a call reads and writes, so that it waits only for conflicting calls.
    pub fn claims(
        mut self,
        claims: impl Fn(&I, &Context) -> Result<Claims, Fault> + Send + Sync + 'static,
    ) -> Self {
        self.claims = Some(Arc::new(claims));
        self
    }

    /// Sets the line that tells a person what a call is about to do.
    pub fn preview_use(mut self, preview: impl Fn(&I) -> String + Send + Sync + 'static) -> Self {
        self.preview_use = Some(Box::new(preview));
        self
    }

    /// Sets the lines that show a person the result: at most as many as the second argument says.
    pub fn preview_result(
        mut self,
        preview: impl Fn(&Reply, usize) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.preview_result = Some(Box::new(preview));
        self
    }
}

impl<I: DeserializeOwned + JsonSchema + Send + 'static> DynTool for Function<I> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn prepare(&self, input: &Value, cx: &Context) -> Result<Box<dyn Prepared>, Fault> {
        let input: I = decode::typed(input, &self.spec)?;
        let claims = match &self.claims {
            Some(claims) => claims(&input, cx)?,
            None if self.spec.read_only => Claims::none().read(Resource::Everything),
            None => Claims::everything(),
        };
        Ok(Box::new(FunctionCall { input, claims, body: self.body.clone() }))
    }

    fn preview_use(&self, input: &Value) -> Option<String> {
        let preview = self.preview_use.as_ref()?;
        Some(preview(&decode::typed(input, &self.spec).ok()?))
    }

    fn preview_result(&self, reply: &Reply, max_lines: usize) -> Vec<String> {
        match &self.preview_result {
            Some(shown) => shown(reply, max_lines),
            None => preview::result(reply, max_lines),
        }
    }
}

struct FunctionCall<I> {
    input: I,
    claims: Claims,
    body: Arc<Body<I>>,
}

impl<I: Send + 'static> Prepared for FunctionCall<I> {
    fn claims(&self) -> Claims {
        self.claims.clone()
    }

    fn run(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<Reply, Fault>> {
        let FunctionCall { input, body, .. } = *self;
        body(input, cx)
    }
}
