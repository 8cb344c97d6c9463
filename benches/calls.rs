//! Rows of calls: a service, and who makes its requests.

use std::{cell::RefCell, rc::Rc};

use crate::{
    Form, Req, Upstream, answer, identified, open_circuit, read, refusal, request,
    row::{BATCH, Row},
};
use http::Response;
use http_body::Body;
use llm_call::BoxError;
use tower_service::Service;

/// Who makes the request of a row.
#[derive(Clone, Copy, Debug)]
pub enum Made {
    /// A caller.
    Bare,
    /// `IdentifyLayer`: with a call and an attempt in its extensions.
    Identified,
}

/// The rows of one form of answer.
#[derive(Debug)]
pub struct Calls {
    form: Form,
    rows: Vec<Row>,
}

impl Calls {
    /// None yet.
    pub fn new(form: Form) -> Calls {
        Calls {
            form,
            rows: Vec::new(),
        }
    }

    /// Calls that are answered.
    pub fn row<S, B>(&mut self, name: &'static str, made: Made, mut service: S)
    where
        S: Service<Req, Response = Response<B>> + 'static,
        S::Error: Into<BoxError>,
        B: Body,
        B::Error: Into<BoxError>,
    {
        let form = self.form;
        let ready = move || prepare(made, form);
        let call = move |request| read(answer(&mut service, request).into_body());
        self.rows.push(Row::new(name, ready, call));
    }

    /// As [`Calls::row`], with a service that is made anew for each batch, since it gets slower
    /// with each call.
    pub fn row_anew<S, B>(&mut self, name: &'static str, made: Made, anew: impl Fn() -> S + 'static)
    where
        S: Service<Req, Response = Response<B>> + 'static,
        S::Error: Into<BoxError>,
        B: Body,
        B::Error: Into<BoxError>,
    {
        let form = self.form;
        let service = Rc::new(RefCell::new(anew()));
        let (next, mut count) = (service.clone(), 0);
        let ready = move || {
            count += 1;
            if count % BATCH == 0 {
                *next.borrow_mut() = anew();
            }
            prepare(made, form)
        };
        let call = move |request| read(answer(&mut *service.borrow_mut(), request).into_body());
        self.rows.push(Row::new(name, ready, call));
    }

    /// Calls that are refused, after as many failures as that takes. All of them come with a call
    /// and an attempt: dropping the request is a part of refusing it.
    pub fn refused<S, B>(&mut self, name: &'static str, mut service: S)
    where
        S: Service<Req, Response = Response<B>> + 'static,
    {
        let form = self.form;
        open_circuit(&mut service, form);
        let ready = move || identified(form);
        let call = move |request| refusal(&mut service, request);
        self.rows.push(Row::new(name, ready, call));
    }

    /// All rows, these last.
    pub fn finish(mut self, more: impl IntoIterator<Item = Row>) -> Vec<Row> {
        self.rows.extend(more);
        self.rows
    }
}

fn prepare(made: Made, form: Form) -> Req {
    Upstream::prepare(form);
    match made {
        Made::Bare => request(form),
        Made::Identified => identified(form),
    }
}
