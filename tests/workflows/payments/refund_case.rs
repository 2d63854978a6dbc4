//! A paid order at a provider whose bank a test plays.

use domain::{
    ids::OrderNo,
    money::Money,
    webhook::{PaymentProvider, ProviderCallback},
};
use payments::{
    callbacks::{self, CallbackEffect},
    provider::Providers,
    refunds::send_due,
};
use stores::http_client::HttpClient;

use crate::{
    fixture::{LEDGERS, NOW, RealFixture, new_fixture},
    payments::{payment_service::providers, report},
};

pub const PROVIDERS: [PaymentProvider; 2] = [PaymentProvider::Webhook, PaymentProvider::Stripe];

/// Every provider with every ledger.
pub fn on_each_ledger() -> impl Iterator<Item = (&'static str, PaymentProvider)> {
    LEDGERS.into_iter().flat_map(|ledger| PROVIDERS.map(|provider| (ledger, provider)))
}

pub struct Case<'a, B> {
    pub fixture: RealFixture,
    pub bank: &'a B,
    pub provider: PaymentProvider,
    pub order_no: OrderNo,
    pub payment: String,
    /// Ledger and provider, for messages.
    pub name: String,
}

impl<'a, B> Case<'a, B>
where
    &'a B: HttpClient,
{
    /// A paid order of 100, whose session the provider opened.
    pub async fn paid(ledger: &str, provider: PaymentProvider, bank: &'a B) -> Self {
        let fixture = new_fixture(ledger, 5, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        fixture.open_session(&order_no, provider, NOW).await.unwrap();
        fixture.payment_succeeded(&order_no, "e").await.unwrap();
        let (payment, name) = (format!("pay-{order_no}"), format!("{ledger} {}", provider.as_str()));
        Case { fixture, bank, provider, order_no, payment, name }
    }

    pub fn providers(&self) -> Providers<&'a B> {
        providers(self.provider, self.bank, self.bank)
    }

    /// Sends the refunds that are due after some hours.
    pub async fn send(&self, hours: i64) {
        let now = NOW.plus(hours * 3_600_000);
        send_due(&self.fixture.redis, &self.fixture.sql, &self.providers(), now, 10).await.unwrap();
    }

    pub fn callback(&self, id: &str, kind: &str, refund: &str, amount: i64) -> ProviderCallback {
        ProviderCallback {
            id: id.to_owned(),
            money: Money::new(amount, "EUR"),
            refund_id: refund.to_owned(),
            provider: Some(self.provider),
            ..report(kind, &self.order_no, &self.payment)
        }
    }

    /// Applies what the provider reports of a refund. `id` is the event's.
    pub async fn apply(&self, id: &str, kind: &str, refund: &str, amount: i64) -> CallbackEffect {
        let callback = self.callback(id, kind, refund, amount);
        callbacks::apply(&self.fixture.redis, &self.fixture.sql, &callback, NOW).await.unwrap()
    }
}
