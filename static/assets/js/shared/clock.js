// The server's clock. The browser's own clock is never asked: only how much time has passed.

// An answer may have waited this long in a cache, so it can be older than the request.
const MAX_CACHE_AGE_MS = 2_000;

/** Server time minus `performance.now()`; undefined until something was measured. */
let offset;
/** What answers have proved: the offset is not smaller. */
let minOffset = -Infinity;
let bestRoundTrip = Infinity;

/**
 * Learns from an answer that says `serverTime`, asked for at `sentAt` and here at `receivedAt`.
 *
 * The first answer sets the clock, half its round trip added. Later ones only correct it: a quicker
 * one, because half a round trip is how wrong it can be, and one that proves the clock wrong. For an
 * answer was written before it arrived, and not long before it was asked for.
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

/** Whether the server's time is known. */
export const isSet = () => offset !== undefined;

/** The server's time now, in milliseconds since 1970; NaN until it is known. */
export const now = () => (offset === undefined ? NaN : performance.now() + offset);

/** Milliseconds until a moment given as RFC 3339; negative when it has passed. */
export const millisecondsUntil = (moment) => Date.parse(moment) - now();
