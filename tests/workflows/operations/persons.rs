//! Tests of what is kept and erased of one person (G12).

use domain::{api::operators::Erased, ids::UserId, presale::PresaleCode};
use operations::{commands::bans, ledger::persons};
use sale::ledger::presale;
use stores::Sql;

use crate::{
    fakes::FakeProvider,
    fixture::{LEDGERS, NOW, new_fixture},
};

#[tokio::test]
async fn a_users_codes_strikes_and_addresses_are_erased_and_those_of_others_stay() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 9, 9).await, FakeProvider::default());
        let users = ["ada", "bob"].map(|user| UserId::parse(user).unwrap());
        let code = PresaleCode::parse("FIRSTCODE").unwrap();
        presale::add(&fixture.sql, &fixture.activity, std::slice::from_ref(&code), 2).await.unwrap().unwrap();
        for (n, user) in (1..).zip(&users) {
            assert!(presale::claim(&fixture.sql, &fixture.activity, &code, user).await.unwrap());
            let (order_no, _) = fixture.checked_out_order(&provider, n, user.as_str()).await;
            fixture.payment_succeeded(&order_no, "e").await.unwrap();
            fixture.checked_out_order(&provider, n + 10, user.as_str()).await;
            let strike = "INSERT INTO strikes (user_id, count, last_at) VALUES (?1, 2, 0)";
            fixture.sql.run(strike, vec![user.as_str().into()]).await.unwrap();
        }
        let [ada, bob] = &users;
        let erase = async || persons::erase(&fixture.sql, ada, NOW).await.unwrap();
        let during_the_sale = Erased { addresses: 1, codes: 0, strikes: 1 };
        assert_eq!(erase().await, during_the_sale, "{ledger}: the code could be used again");
        let ended = "UPDATE activities SET ends_at = ?2 WHERE id = ?1";
        fixture.sql.run(ended, vec![fixture.activity.as_str().into(), NOW.0.into()]).await.unwrap();
        assert_eq!(erase().await, Erased { addresses: 0, codes: 1, strikes: 0 }, "{ledger}");
        assert_eq!(persons::list_codes(&fixture.sql, ada).await.unwrap(), [], "{ledger}");
        assert_eq!(persons::list_codes(&fixture.sql, bob).await.unwrap().len(), 1, "{ledger}");
        assert_eq!(bans::load_strikes(&fixture.sql, bob).await.unwrap().0, 2, "{ledger}");
        let left = fixture.sql.run("SELECT order_no FROM addresses", vec![]).await.unwrap().len();
        assert_eq!(left, 3, "{ledger}: of the orders that wait for payment, and of bob");
    }
}
