//! What buyers, robots and the operator of a sale tell one another of its line.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use tokio::sync::watch;

pub struct LineState {
    /// Buyers who are neither done nor in the line: they may still free units.
    acting: AtomicUsize,
    view: watch::Sender<View>,
}

#[derive(Default)]
struct View {
    /// The SKUs that a buyer has waited for, by index.
    begun: BTreeSet<usize>,
    is_over: bool,
}

impl LineState {
    /// An empty line. `buyers` count as acting.
    pub fn new(buyers: usize) -> Self {
        Self { acting: AtomicUsize::new(buyers), view: watch::Sender::new(View::default()) }
    }

    /// A buyer waits for the SKU with this index.
    pub fn enter(&self, sku: usize) {
        self.view.send_if_modified(|view| view.begun.insert(sku));
        self.finish_acting();
    }

    /// A buyer waits no more and acts again, or a robot begins to act.
    pub fn begin_acting(&self) {
        self.acting.fetch_add(1, Relaxed);
    }

    /// A buyer is done.
    pub fn finish_acting(&self) {
        self.acting.fetch_sub(1, Relaxed);
    }

    pub fn acting(&self) -> usize {
        self.acting.load(Relaxed)
    }

    /// Says that the sale is closed.
    pub fn end(&self) {
        self.view.send_modify(|view| view.is_over = true);
    }

    pub fn is_over(&self) -> bool {
        self.view.borrow().is_over
    }

    pub async fn wait_until_over(&self) {
        let _ = self.view.subscribe().wait_for(|view| view.is_over).await;
    }

    /// Waits until a buyer waits for the SKU with this index, or the line is over.
    pub async fn wait_until_begun(&self, sku: usize) {
        let _ = self.view.subscribe().wait_for(|view| view.is_over || view.begun.contains(&sku)).await;
    }
}
