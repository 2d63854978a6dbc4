// Searches the number of a proof of work, beside the page, so that the countdown goes on.

import { sha256 } from "./sha256.js";

self.addEventListener("message", ({ data: { challenge, salt, maxnumber } }) => {
  const bytes = new TextEncoder();
  const goal = parseInt(challenge.slice(0, 8), 16);
  let answer = null;
  for (let number = 0; number <= maxnumber; number += 1) {
    const digest = sha256(bytes.encode(salt + number));
    // One word decides nearly always; the whole hash only then.
    if (digest[0] === goal && hex(digest) === challenge.toLowerCase()) {
      answer = number;
      break;
    }
  }
  self.postMessage(answer);
});

const hex = (words) => Array.from(words, (word) => word.toString(16).padStart(8, "0")).join("");
