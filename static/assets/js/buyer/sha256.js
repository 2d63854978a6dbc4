// SHA-256 (FIPS 180-4) over short inputs. The browser's own is asynchronous, which costs more than
// the hash when there are a hundred thousand of them, and absent on pages without TLS.

const ROUNDS = constants();

/** The eight words of the digest of `bytes`. */
export function sha256(bytes) {
  const blocks = (bytes.length + 72) >> 6;
  const data = new DataView(new ArrayBuffer(blocks * 64));
  new Uint8Array(data.buffer).set(bytes);
  data.setUint8(bytes.length, 0x80);
  data.setUint32(blocks * 64 - 4, bytes.length * 8);
  const state = new Uint32Array([
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
  ]);
  const words = new Uint32Array(64);
  for (let block = 0; block < blocks; block += 1) compress(state, words, data, block * 64);
  return state;
}

function compress(state, words, data, start) {
  for (let i = 0; i < 16; i += 1) words[i] = data.getUint32(start + i * 4);
  for (let i = 16; i < 64; i += 1) {
    const [a, b] = [words[i - 15], words[i - 2]];
    const s0 = turn(a, 7) ^ turn(a, 18) ^ (a >>> 3);
    const s1 = turn(b, 17) ^ turn(b, 19) ^ (b >>> 10);
    words[i] = words[i - 16] + s0 + words[i - 7] + s1;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i += 1) {
    const s1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
    const one = (h + s1 + ((e & f) ^ (~e & g)) + ROUNDS[i] + words[i]) | 0;
    const s0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
    const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, index) => (state[index] += word));
}

const turn = (word, by) => (word >>> by) | (word << (32 - by));

/** The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
function constants() {
  const found = [];
  for (let number = 2; found.length < 64; number += 1) {
    let divisor = 2;
    while (divisor * divisor <= number && number % divisor) divisor += 1;
    if (divisor * divisor > number) found.push(((Math.cbrt(number) % 1) * 2 ** 32) >>> 0);
  }
  return Uint32Array.from(found);
}
