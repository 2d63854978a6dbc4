// `localStorage` and `sessionStorage`, or the page's memory where the browser blocks them.

/** Values of this origin that outlive the tab. */
export const device = open("localStorage");

/** Values of this tab. */
export const tab = open("sessionStorage");

/** Whether values in this storage outlive the page. */
export const isKept = (storage) => storage instanceof Storage;

function open(name) {
  try {
    const storage = globalThis[name];
    // A full or blocked storage throws.
    storage.setItem("stampede.probe", "");
    storage.removeItem("stampede.probe");
    return storage;
  } catch {
    return memory();
  }
}

function memory() {
  const values = new Map();
  return {
    get length() {
      return values.size;
    },
    key: (index) => [...values.keys()][index] ?? null,
    getItem: (key) => values.get(key) ?? null,
    setItem: (key, value) => void values.set(key, value),
    removeItem: (key) => void values.delete(key),
  };
}
