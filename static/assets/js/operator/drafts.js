// What was typed into the editor, kept in the tab until it is saved or discarded.

import { tab } from "../shared/storage.js";

const PREFIX = "stampede.draft.";

/** The texts of the fields that were typed into the editor with this name, or null. */
export const loadDraft = (name) => JSON.parse(tab.getItem(PREFIX + name) ?? "null");

export const storeDraft = (name, draft) => tab.setItem(PREFIX + name, JSON.stringify(draft));

export const removeDraft = (name) => tab.removeItem(PREFIX + name);

/** Removes those of all editors. */
export function removeDrafts() {
  const names = Array.from({ length: tab.length }, (_, index) => tab.key(index));
  for (const name of names) if (name.startsWith(PREFIX)) tab.removeItem(name);
}
