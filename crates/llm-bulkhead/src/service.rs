use std::{
    fmt,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use llm_call::{Attempt, BoxError, Call, Target};
use tower_service::Service;

use crate::{
    Bulkhead, BulkheadBody, ResponseFuture,
    bulkhead::Entry,
    layer::{NameOf, Rules, Scope},
    name::Names,
};

/// The service of [`BulkheadLayer`](crate::BulkheadLayer).
///
/// It is always ready: a clone that is ready and idle holds no permit, nor does it reserve anything
/// of the inner service. A call that has its permit waits for a clone of that.
#[derive(Clone)]
pub struct BulkheadService<S> {
    inner: S,
    bulkhead: Bulkhead,
    rules: Rules,
}

/// What a refusal says about its request.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) call: Option<Call>,
    pub(crate) target: Option<Target>,
}

impl Origin {
    fn of<B>(request: &Request<B>) -> Origin {
        let attempt = request.extensions().get::<Attempt>();
        Origin {
            call: request.extensions().get::<Call>().cloned(),
            target: attempt.and_then(|attempt| attempt.target.clone()),
        }
    }
}

impl<S> BulkheadService<S> {
    pub(crate) fn new(inner: S, bulkhead: Bulkhead, rules: Rules) -> BulkheadService<S> {
        BulkheadService {
            inner,
            bulkhead,
            rules,
        }
    }

    /// The pools.
    pub fn bulkhead(&self) -> &Bulkhead {
        &self.bulkhead
    }

    fn enter<B>(&self, request: &Request<B>) -> Entry {
        let extensions = request.extensions();
        let names = match &self.rules.scope {
            Scope::Target => {
                let attempt = extensions.get::<Attempt>();
                let target = attempt.and_then(|attempt| attempt.target.as_ref());
                target.map(Names::of_target)
            }
            _ => extensions.get::<Call>().map(Names::of_call),
        };
        self.enter_as(&names.unwrap_or_default(), extensions.get())
    }

    fn enter_named<B>(&self, request: Request<B>, name: &NameOf) -> (Request<B>, Entry) {
        let (parts, body) = request.into_parts();
        let entry = {
            let name = name(&parts);
            let names = name.as_deref().map(Names::of_text).unwrap_or_default();
            self.enter_as(&names, parts.extensions.get())
        };
        (Request::from_parts(parts, body), entry)
    }

    fn enter_as(&self, names: &Names<'_>, call: Option<&Call>) -> Entry {
        let cost = match (&self.rules.cost, call) {
            (Some(cost), Some(call)) => cost(call).max(1) as usize,
            _ => 1,
        };
        let tenant = call.and_then(Call::tenant_name);
        let deadline = || call.and_then(Call::deadline);
        self.bulkhead.enter(names, tenant.as_ref(), cost, deadline)
    }
}

impl<S, ReqB, B> Service<Request<ReqB>> for BulkheadService<S>
where
    S: Service<Request<ReqB>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = Response<BulkheadBody<B>>;
    type Error = BoxError;
    type Future = ResponseFuture<S, ReqB>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<ReqB>) -> Self::Future {
        let until = self.rules.until;
        let entry = match &self.rules.scope {
            Scope::Name(name) => {
                let entry;
                (request, entry) = self.enter_named(request, name);
                entry
            }
            Scope::Work | Scope::Target => self.enter(&request),
        };
        match entry {
            Entry::Admitted(permit) => {
                ResponseFuture::admitted(permit, until, self.inner.clone(), request)
            }
            Entry::Parked(place) => {
                let origin = Origin::of(&request);
                ResponseFuture::parked(place, origin, until, self.inner.clone(), request)
            }
            Entry::Refused(full) => {
                let Origin { call, target } = Origin::of(&request);
                ResponseFuture::refused(full.refuse(call.as_ref(), target))
            }
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for BulkheadService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkheadService")
            .field("inner", &self.inner)
            .field("bulkhead", &self.bulkhead)
            .field("rules", &self.rules)
            .finish()
    }
}
