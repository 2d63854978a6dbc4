//! Creates the wasmtime engine with Spin's configuration.

use std::{env, time::Duration};

use anyhow::Context as _;
use wasmtime::{Cache, Config, Engine, InstanceAllocationStrategy, Memory, MemoryType, PoolingAllocationConfig, Store};

/// How often the engine's epoch advances, at which a running guest compares it with its deadline.
const EPOCH_INTERVAL: Duration = Duration::from_millis(10);
const MIB: u64 = 1 << 20;

/// Command-line options of the engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct EngineOptions {
    /// Compile every component instead of using the disk cache.
    pub disable_cache: bool,
    /// Allocate instances one by one instead of from a pool.
    pub disable_pooling: bool,
}

/// Creates the engine and starts the thread that advances its epoch.
///
/// # Errors
/// If wasmtime rejects the configuration on this machine. The error suggests `--disable-pooling`.
pub fn build(options: EngineOptions) -> anyhow::Result<Engine> {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.wasm_component_model(true);
    config.wasm_component_model_async(true);
    if !options.disable_cache {
        match Cache::from_file(None) {
            Ok(cache) => {
                config.cache(Some(cache));
            }
            Err(error) => eprintln!("Starting takes longer: compiled components cannot be kept on disk ({error:#})."),
        }
    }
    if !options.disable_pooling && pooling_is_possible() {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    }
    let engine =
        Engine::new(&config).map_err(anyhow::Error::from).context("wasmtime cannot start; try `--disable-pooling`")?;
    start_epoch_timer(&engine);
    Ok(engine)
}

/// Returns Spin's pool configuration, with the same environment variables for its sizes.
fn pool() -> PoolingAllocationConfig {
    let instances = env_or("SPIN_MAX_INSTANCE_COUNT", 1_000);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(env_or("SPIN_WASMTIME_INSTANCE_COUNT", instances))
        .total_memories(env_or("SPIN_WASMTIME_TOTAL_MEMORIES", instances))
        .total_tables(env_or("SPIN_WASMTIME_TOTAL_TABLES", 2 * instances))
        .total_stacks(env_or("SPIN_WASMTIME_TOTAL_STACKS", instances))
        .total_core_instances(env_or("SPIN_WASMTIME_TOTAL_CORE_INSTANCES", 4 * instances))
        .table_elements(env_or("SPIN_WASMTIME_INSTANCE_TABLE_ELEMENTS", 100_000))
        .max_component_instance_size(env_bytes_or("SPIN_WASMTIME_INSTANCE_SIZE", 10 * MIB))
        .max_core_instance_size(env_bytes_or("SPIN_WASMTIME_CORE_INSTANCE_SIZE", 10 * MIB))
        .max_core_instances_per_component(env_or("SPIN_WASMTIME_CORE_INSTANCE_COUNT", 200))
        .max_tables_per_component(env_or("SPIN_WASMTIME_INSTANCE_TABLES", 64))
        .max_memories_per_component(env_or("SPIN_WASMTIME_INSTANCE_MEMORIES", 32))
        .max_tables_per_module(env_or("SPIN_WASMTIME_MAX_TABLES_PER_MODULE", 2))
        .max_memories_per_module(env_or("SPIN_WASMTIME_MAX_MEMORIES_PER_MODULE", 2))
        .max_memory_size(1 << 32)
        .linear_memory_keep_resident(env_bytes_or("SPIN_WASMTIME_LINEAR_MEMORY_KEEP_RESIDENT", 2 * MIB))
        .table_keep_resident(env_bytes_or("SPIN_WASMTIME_TABLE_KEEP_RESIDENT", MIB / 2));
    pool
}

fn env_or<T: std::str::FromStr>(name: &str, default: T) -> T {
    env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn env_bytes_or(name: &str, default: u64) -> usize {
    usize::try_from(env_or(name, default)).unwrap_or(usize::MAX)
}

/// Returns whether this machine has the address space that the pool reserves (42 bits).
fn pooling_is_possible() -> bool {
    const BITS: u32 = 42;
    match env::var("SPIN_WASMTIME_POOLING").as_deref() {
        Ok("1") => return true,
        Ok("0") => return false,
        _ => {}
    }
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
