//! Redis trigger: calls components for messages, one message at a time, with a new instance for each call.

use std::{collections::HashMap, sync::Arc};

use anyhow::{Context as _, anyhow};
use futures::{StreamExt as _, future};
use redis::{Client, Msg};
use tokio::task::JoinSet;

use crate::{
    bindings::inbound_redis::GuestIndices,
    component::LoadedComponent,
    manifest::App,
    variables::{Template, Variables},
};

type Subscribers = Vec<Arc<Subscriber>>;

/// A component that handles messages.
struct Subscriber {
    component: Arc<LoadedComponent>,
    guest: GuestIndices,
}

/// One server, and its channels with their components.
struct Listener {
    client: Client,
    channels: HashMap<String, Subscribers>,
}

/// Subscribes to all channels and dispatches their messages until a connection is lost.
///
/// # Errors
/// If an address or a channel cannot be resolved, or the connection to a server fails or is lost.
pub async fn run(
    app: &App,
    variables: &Variables,
    components: &HashMap<String, Arc<LoadedComponent>>,
) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    for listener in listeners(app, variables, components)? {
        tasks.spawn(listener.run());
    }
    match tasks.join_next().await {
        Some(result) => result?,
        None => Ok(()),
    }
}

fn listeners(
    app: &App,
    variables: &Variables,
    components: &HashMap<String, Arc<LoadedComponent>>,
) -> anyhow::Result<Vec<Listener>> {
    let resolve = |text: &str| Ok::<_, anyhow::Error>(variables.render(&Template::parse(text)?)?);
    let subscribers = components
        .iter()
        .map(|(id, component)| Ok((id.as_str(), Arc::new(Subscriber::new(component.clone())?))))
        .collect::<anyhow::Result<HashMap<_, _>>>()?;
    let mut servers: HashMap<String, HashMap<String, Subscribers>> = HashMap::new();
    for trigger in &app.redis {
        let location = || format!("in the Redis trigger of {:?}", trigger.component);
        let subscriber = subscribers.get(trigger.component.as_str()).with_context(location)?;
        servers
            .entry(resolve(&app.redis_address).with_context(location)?)
            .or_default()
            .entry(resolve(&trigger.channel).with_context(location)?)
            .or_default()
            .push(subscriber.clone());
    }
    servers
        .into_iter()
        .map(|(address, channels)| {
            let client = Client::open(address)
                .context("`address` in [application.trigger.redis] is no Redis URL (redis://host:port)")?;
            Ok(Listener { client, channels })
        })
        .collect()
}

impl Listener {
    async fn run(self) -> anyhow::Result<()> {
        let server = self.client.get_connection_info().addr.clone();
        let mut pubsub = self
            .client
            .get_async_pubsub()
            .await
            .with_context(|| format!("Redis trigger failed to connect to {server}"))?;
        println!("Active Channels on {server}:");
        for (channel, subscribers) in &self.channels {
            pubsub
                .subscribe(channel)
                .await
                .with_context(|| format!("Redis trigger failed to subscribe to channel {channel:?} on {server}"))?;
            let ids: Vec<&str> = subscribers.iter().map(|s| s.component.id()).collect();
            println!("\t{server}/{channel}: [{}]", ids.join(","));
        }
        let mut messages = pubsub.on_message();
        while let Some(message) = messages.next().await {
            self.dispatch(&message).await;
        }
        Err(anyhow!("disconnected from {server}"))
    }

    /// Calls every component on the channel and waits for all of them. Failures are only logged.
    async fn dispatch(&self, message: &Msg) {
        let channel = message.get_channel_name();
        let Some(subscribers) = self.channels.get(channel) else {
            tracing::error!("a message came from the unexpected channel {channel:?}");
            return;
        };
        future::join_all(subscribers.iter().map(|subscriber| async move {
            if let Err(error) = subscriber.handle(message.get_payload_bytes().to_vec()).await {
                let component = subscriber.component.id();
                tracing::error!("a Redis message to the component {component:?} failed: {error:#}");
            }
        }))
        .await;
    }
}

impl Subscriber {
    fn new(component: Arc<LoadedComponent>) -> anyhow::Result<Self> {
        let guest = GuestIndices::new(component.pre()).map_err(|_| {
            anyhow!(
                "the component {:?} does not export spin:redis/inbound-redis@3; build it with \
                 spin-sdk 7 and #[redis_subscriber]",
                component.id()
            )
        })?;
        Ok(Self { component, guest })
    }

    async fn handle(&self, payload: Vec<u8>) -> anyhow::Result<()> {
        let mut store = self.component.store()?;
        let instance = self.component.pre().instantiate_async(&mut store).await?;
        let guest = self.guest.load(&mut store, &instance)?;
        let handled =
            store.run_concurrent(async |accessor| guest.call_handle_message(accessor, payload).await).await??;
        handled.context("Redis handler returned an error")
    }
}
