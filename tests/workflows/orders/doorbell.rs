//! Tests of the doorbell that wakes order writers (D3).

use futures::{StreamExt, future::join_all};
use orders::doorbell::{DOORBELL_CHANNEL, Doorbell, ring_for_one};

use crate::fixture::{new_fixture, redis_url};

#[tokio::test]
async fn a_reservation_wakes_every_replica_and_a_writer_with_messages_left_wakes_one() {
    let fixture = new_fixture("sqlite", 5, 5).await;
    let client = redis::Client::open(redis_url()).unwrap();
    let mut pubsub = client.get_async_pubsub().await.unwrap();
    pubsub.subscribe(DOORBELL_CHANNEL).await.unwrap();
    // Other tests ring for their own activities.
    let doorbells = pubsub.on_message().filter_map(async |message| {
        Doorbell::parse(message.get_payload_bytes()).filter(|doorbell| doorbell.activity == fixture.activity)
    });
    let mut doorbells = std::pin::pin!(doorbells);
    let count_woken = async |doorbell: &Doorbell| {
        let claims = join_all((1..=4).map(|replica| doorbell.claim(&fixture.redis, replica))).await;
        claims.into_iter().filter(|claimed| *claimed.as_ref().unwrap()).count()
    };

    fixture.reserve(1, "ada", 1).await.unwrap();
    let of_reservation = doorbells.next().await.unwrap();
    assert_eq!(count_woken(&of_reservation).await, 4);

    for id in [7, 8] {
        ring_for_one(&fixture.redis, &fixture.activity, id).await.unwrap();
        let of_writer = doorbells.next().await.unwrap();
        assert_eq!(count_woken(&of_writer).await, 1, "{of_writer:?}");
        // The reply to a claim was lost, and the replica repeats it.
        assert_eq!(count_woken(&of_writer).await, 1, "{of_writer:?}");
    }
}
