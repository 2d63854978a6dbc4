//! A call of an operator, and what it did.

use domain::{
    api::operators::ReplayEvents,
    client_address,
    http::{body, routes::Admin},
    operators::Operator,
};
use platform::{
    http::{Request, Response, percent_decode},
    paging,
};
use serde::Serialize;

/// A call of an operator.
pub struct Call<'a> {
    /// The request.
    pub request: &'a Request,
    /// Who calls.
    pub operator: &'a Operator,
    /// The route.
    pub endpoint: Admin,
    /// The path's parameters as they were sent. Unused ones are empty.
    pub params: [&'a str; 2],
    /// What the call is about, in one spelling, so that a search of the log or of the changes finds every call.
    pub subject: String,
}

impl<'a> Call<'a> {
    /// Names the subject: the path's parameters, the order whose events are sent again, or the buyer whose orders are searched.
    pub fn new(request: &'a Request, operator: &'a Operator, endpoint: Admin, params: [&'a str; 2]) -> Self {
        let decoded = match params.map(percent_decode) {
            [first, second] if second.is_empty() => first,
            both => both.join("/"),
        };
        let subject = match endpoint {
            Admin::BanAddress | Admin::LiftAddressBan => client_address::normalize(&decoded).unwrap_or(decoded),
            Admin::ReplayEvents => {
                let body = body::parse::<ReplayEvents>(&request.body).unwrap_or_default();
                body.order_no.map(String::from).unwrap_or_default()
            }
            Admin::FindOrders => paging::text(request, "user").unwrap_or_default(),
            _ => decoded,
        };
        Self { request, operator, endpoint, params, subject }
    }
}

/// What a call did.
pub enum Outcome {
    /// It read data without buyers.
    Read(Response),
    /// It read data about buyers.
    ReadBuyers(Response),
    /// It would have changed something, but that is so already.
    Unchanged(Response),
    /// It changed something.
    Changed {
        /// What the record of the change has as `after`: JSON, or empty if nothing is left.
        after: String,
        /// The response.
        response: Response,
    },
}

impl Outcome {
    /// A change whose record has another document than the response.
    pub fn recorded(after: &impl Serialize, response: Response) -> Self {
        Self::Changed { after: serde_json::to_string(after).unwrap_or_default(), response }
    }

    /// A change whose record has the document of the response.
    pub fn changed(status: u16, document: &impl Serialize) -> Self {
        Self::recorded(document, Response::json(status, document))
    }

    /// A change that leaves nothing.
    pub fn deleted() -> Self {
        Self::Changed { after: String::new(), response: Response::empty(204) }
    }

    /// A change that needs no record unless something is another than before.
    pub fn only_if(self, is_changed: bool) -> Self {
        if is_changed { self } else { Self::Unchanged(self.into_response()) }
    }

    /// Returns the response.
    pub fn into_response(self) -> Response {
        match self {
            Self::Read(response)
            | Self::ReadBuyers(response)
            | Self::Unchanged(response)
            | Self::Changed { response, .. } => response,
        }
    }
}
