// What needs a person, from `/api/admin/inbox`, or from the lists that it sums up.

import { send } from "./requests.js";
import { t } from "./words.js";

/** `3 things need you`. */
export const countText = (number) => t(number === 1 ? "inbox.count.one" : "inbox.count.many", { number });

/** Loads what needs a person, oldest first. */
export async function loadInbox() {
  const [callbacks, letters, events] = await Promise.all([
    send("GET", "/callbacks?limit=200"), send("GET", "/dead-letters?limit=200"), send("GET", "/events?limit=1"),
  ]);
  return [
    ...callbacks.items.map((callback) => ({ kind: "parked_callback", since: callback.received_at, callback })),
    ...letters.items.filter(({ replayed_at: at }) => !at).map((letter) => ({ kind: "dead_letter", since: letter.died_at, letter })),
    ...(events.endpoint.disabled_at ? [{ kind: "events_disabled", since: events.endpoint.disabled_at }] : []),
  ].sort((one, other) => Date.parse(one.since) - Date.parse(other.since));
}
