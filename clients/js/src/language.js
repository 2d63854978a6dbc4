// Chooses a text by its language.

/**
 * The tag of `tags` for a language, by RFC 4647's lookup with likely subtags: the same one, or the first with the same
 * language, script and region (`zh-Hans` for `zh-CN`), else one with less in common. The server has the same rule.
 * @param {string} wanted
 * @param {string[]} tags
 * @returns {string | undefined}
 */
export function bestLanguage(wanted, tags) {
  const same = tags.find((tag) => tag.toLowerCase() === wanted.toLowerCase());
  const language = maximize(wanted);
  if (same !== undefined || !language) return same;
  const usual = maximize([language.language, language.script].filter(Boolean).join("-"));
  const known = tags.map((tag) => ({ tag, ...maximize(tag) }));
  /** @param {Subtags | null} other @param {(keyof Subtags)[]} members */
  const find = (other, members) => known.find((tag) => members.every((member) => tag[member] === other?.[member]))?.tag;
  return find(language, ["language", "script", "region"]) ?? find(usual, ["language", "script", "region"])
    ?? find(language, ["language", "script"]) ?? find(language, ["language"]);
}

/** @typedef {{ language?: string, script?: string, region?: string }} Subtags */

/**
 * A tag's language, with the script and region that are likely for it (`zh-Hans-CN` for `zh`); null for no tag.
 * @param {string} tag
 * @returns {Subtags | null}
 */
function maximize(tag) {
  try {
    const { language, script, region } = new Intl.Locale(tag).maximize();
    return { language, script, region };
  } catch {
    return null;
  }
}
