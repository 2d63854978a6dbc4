// What tests outside of Rust share: waiting with a deadline.

/** Asks until `look` answers `{done: true, value}`; fails with what it saw last. */
export async function eventually(what, look, { within = 30_000 } = {}) {
  const deadline = Date.now() + within;
  for (;;) {
    const seen = await look();
    if (seen.done) return seen.value;
    if (Date.now() > deadline) throw new Error(`${what} did not happen; last seen: ${JSON.stringify(seen.value)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
