//! Creates the wasmtime engine with Spin's configuration.

use std::{env, time::Duration};

use anyhow::Context as _;
use wasmtime::{Cache, Config, Engine, InstanceAllocationStrategy, Memory, MemoryType, PoolingAllocationConfig, Store};

/// How often the engine's epoch advances, at which a running guest compares it with its deadline.
const EPOCH_INTERVAL: Duration = Duration::from_millis(10);
const MIB: usize = 1 << 20;

/// Creates the engine and starts the thread that advances its epoch.
///
/// # Errors
/// If wasmtime rejects the configuration on this machine.
pub fn build() -> anyhow::Result<Engine> {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.wasm_component_model(true);
    config.wasm_component_model_async(true);
    match Cache::from_file(None) {
        Ok(cache) => {
            config.cache(Some(cache));
        }
        Err(error) => eprintln!("Starting takes longer: compiled components cannot be kept on disk ({error:#})."),
    }
    if pooling_is_possible() {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    }
    let engine = Engine::new(&config).map_err(anyhow::Error::from).context("wasmtime cannot start")?;
    start_epoch_timer(&engine);
    Ok(engine)
}

/// Returns Spin's pool configuration, with the same environment variable for the number of instances.
fn pool() -> PoolingAllocationConfig {
    let instances = env::var("SPIN_MAX_INSTANCE_COUNT").ok().and_then(|value| value.parse().ok()).unwrap_or(1_000);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(instances)
        .total_memories(instances)
        .total_tables(2 * instances)
        .total_stacks(instances)
        .total_core_instances(4 * instances)
        .table_elements(100_000)
        .max_component_instance_size(10 * MIB)
        .max_core_instance_size(10 * MIB)
        .max_core_instances_per_component(200)
        .max_tables_per_component(64)
        .max_memories_per_component(32)
        .max_tables_per_module(2)
        .max_memories_per_module(2)
        .max_memory_size(1 << 32)
        .linear_memory_keep_resident(2 * MIB)
        .table_keep_resident(MIB / 2);
    pool
}

/// Returns whether this machine has the address space that the pool reserves (42 bits).
fn pooling_is_possible() -> bool {
    const BITS: u32 = 42;
    let mut config = Config::new();
    config.wasm_memory64(true);
    config.memory_reservation(1 << BITS);
    let Ok(engine) = Engine::new(&config) else { return false };
    // The size is in pages of 64 KiB.
    let memory = MemoryType::new64(0, Some(1 << (BITS - 16)));
    Memory::new(&mut Store::new(&engine, ()), memory).is_ok()
}

fn start_epoch_timer(engine: &Engine) {
    let engine = engine.weak();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(EPOCH_INTERVAL);
            match engine.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => break,
            }
        }
    });
}
