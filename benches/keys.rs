//! Calls for many targets or many tenants: what a layer keeps for each of them.

#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

use std::{cell::Cell, sync::Arc};

use http::{Request, Response};
use llm_call::{BoxError, CallSettings, Target};
use llm_failover::{Failover, FailoverLayer, Targets};
use tower::Layer;
use tower_service::Service;

use crate::{Form, PRIMARY, SECOND, Upstream, answer, ended::AtOnce, identify, ours::peek, read};

/// Whose calls they are.
#[derive(Clone, Debug)]
pub enum Keys {
    /// Each for a target of its own.
    Targets(Arc<[Target]>),
    /// Each of a tenant of its own, all for one target.
    Tenants(Arc<[Arc<str>]>),
}

impl Keys {
    /// So many targets.
    pub fn targets(count: usize) -> Keys {
        let target = |i| format!("provider-{i}:gpt-4.1-mini").parse().unwrap();
        Keys::Targets((0..count).map(target).collect())
    }

    /// So many tenants.
    pub fn tenants(count: usize) -> Keys {
        Keys::Tenants((0..count).map(|i| format!("tenant-{i}").into()).collect())
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        match self {
            Keys::Targets(targets) => targets.len(),
            Keys::Tenants(tenants) => tenants.len(),
        }
    }

    /// A request of the key with this number, as it comes down a stack.
    pub fn request(&self, number: usize) -> Request<()> {
        thread_local! {
            static PRIMARY_TARGET: Target = PRIMARY.parse().unwrap();
        }
        // What came down before is not needed here.
        while AtOnce::spare().is_some() {}
        let mut request = Request::new(());
        match self {
            Keys::Targets(targets) => {
                let settings = CallSettings::new();
                identify(&mut request, Form::Streamed, &targets[number], settings);
            }
            Keys::Tenants(tenants) => PRIMARY_TARGET.with(|target| {
                let settings = CallSettings::new().tenant(tenants[number].clone());
                identify(&mut request, Form::Streamed, target, settings);
            }),
        }
        request
    }

    /// Requests of all keys in turn, for ever, in an order that no cache guesses.
    pub fn in_turn(self) -> impl FnMut() -> Request<()> {
        /// Prime to any number of keys that is a power of ten.
        const STEP: usize = 7919;
        let at = Cell::new(0);
        move || {
            at.set((at.get() + STEP) % self.len());
            self.request(at.get())
        }
    }

    /// One call of each key.
    pub fn call_each<S, B>(&self, service: &mut S)
    where
        S: Service<Request<()>, Response = Response<B>>,
        S::Error: Into<BoxError>,
    {
        for number in 0..self.len() {
            drop(answer(service, self.request(number)));
        }
        while AtOnce::spare().is_some() {}
    }
}

/// Failover between two targets, of which the first rests for each of these tenants.
pub fn resting_tenants(keys: &Keys) -> Failover<AtOnce> {
    let targets = Targets::ordered([PRIMARY, SECOND])
        .unwrap()
        .rests_per_tenant();
    let layer = FailoverLayer::new(targets.clone());
    let mut limited = layer.layer(peek());
    if let Keys::Tenants(tenants) = keys {
        for tenant in &**tenants {
            // What is put down last is answered first.
            Upstream::prepare(Form::Whole);
            Upstream::prepare_rate_limit();
            let mut request = crate::request(Form::Whole);
            let settings = CallSettings::new().tenant(tenant.clone());
            let call = llm_call::Call::open(settings);
            request.extensions_mut().insert(call);
            read(answer(&mut limited, request).into_body());
        }
        assert_eq!(targets.snapshot()[0].resting_tenants, tenants.len());
    }
    layer.layer(AtOnce)
}
