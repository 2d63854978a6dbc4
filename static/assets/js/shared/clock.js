// The server's clock, estimated from responses. The browser's clock is not used; only elapsed time is measured.

// A response may come from a cache, so its server time can be this much older than the request. In milliseconds.
const MAX_CACHE_AGE_MS = 2_000;

/** Server time minus `performance.now()`; undefined until the first response. */
let offset;
/** Lower bound of the offset, from all responses so far. */
let minOffset = -Infinity;
let bestRoundTrip = Infinity;

/**
 * Updates the clock from a response with `serverTime`, sent at `sentAt` and received at `receivedAt`, both in
 * `performance.now()`.
 *
 * The first response sets the clock: its server time plus half the round trip. A response with a shorter round trip
 * sets it again, because half a round trip is the largest possible error. Every response also gives bounds: it was
 * written before it was received, and at most `MAX_CACHE_AGE_MS` before it was requested. The offset stays within them.
 */
export function observe(serverTime, sentAt, receivedAt) {
  const serverNow = Date.parse(serverTime);
  if (!Number.isFinite(serverNow)) return;
  const roundTrip = receivedAt - sentAt;
  if (roundTrip <= bestRoundTrip) {
    offset = serverNow + roundTrip / 2 - receivedAt;
    bestRoundTrip = roundTrip;
  }
  const maxOffset = serverNow + MAX_CACHE_AGE_MS - sentAt;
  minOffset = Math.min(Math.max(minOffset, serverNow - receivedAt), maxOffset);
  offset = Math.min(Math.max(offset, minOffset), maxOffset);
}

/** Whether a response has set the clock. */
export const isSet = () => offset !== undefined;

/** The server's time now, in milliseconds since 1970; NaN until it is known. */
export const now = () => (offset === undefined ? NaN : performance.now() + offset);

/** Milliseconds until `moment`, an RFC 3339 time; negative when it has passed. */
export const millisecondsUntil = (moment) => Date.parse(moment) - now();
