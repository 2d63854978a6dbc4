// The phase of a sale as buyers see it.

import { client, clock } from "../../shared/client.js";
import { countdown } from "../../shared/format.js";

/** Loads the phase, with the time that is left by the server's clock; empty if the gate cannot be loaded. */
export async function loadPhase(id) {
  try {
    const data = await client.gate(id);
    const until = (time) => countdown(clock.millisecondsUntil(time));
    if (data.phase === "scheduled") return `Starts in ${until(data.starts_at)}`;
    if (data.phase === "ended") return "Ended";
    return `${data.phase === "paused" ? "Paused" : "Open"}, ends in ${until(data.ends_at)}`;
  } catch {
    return "";
  }
}
