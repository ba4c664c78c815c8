"""Makes docs/configuration.md from the schemas of the configuration files.

A field's comment is its meaning, in full sentences; the rest is in its row (common/daemon/option.proto), by which the
daemons check files, too. A comment that begins with "Section:" and is followed by an empty line opens a table of fields.
"""
import pathlib
import re

# In the order of the document: schema, daemon, where packages install the file.
SCHEMAS = (
    ("controller/daemon/config.proto", "espalier-controller", "/etc/espalier/controller.conf"),
    ("controller/telemetry/daemon/config.proto", "espalier-telemetry", "/etc/espalier/telemetry.conf"),
    ("agent/daemon/config.proto", "espalier-agent", "/etc/espalier/agent.conf"),
    ("agent/engine/config.proto", "espalier-engine", "/etc/espalier/engine.conf"),
    ("agent/dpdk/config.proto", "espalier-dpdk", "/etc/espalier/dpdk.conf"),
)

TYPES = {"string": "text", "bool": "true or false", "uint32": "number", "uint64": "number",
         "int32": "number", "int64": "number", "double": "number", "float": "number"}

FIELD = re.compile(r"(?:(repeated|optional) )?(\w+) (\w+) = \d+(?: \[\(io\.option\) = \{(.*)\}\])?;")
ENTRY = re.compile(r'\s*(\w+): ("(?:[^"\\]|\\.)*"|\w+)')
LITERAL = re.compile(r'"[^"]*"|-?\d+|true|false|[A-Z][A-Z_]*')

HEAD = """\
<!-- Made by docs/tools/reference.py from the comments of the schemas. Do not edit. -->
# Configuration

Each daemon reads one file, which `--config FILE` names, in
[protobuf text format](https://protobuf.dev/reference/protobuf/textformat-spec/): one `field: value`
on each line, text in double quotes, and comments after `#`. A field that holds a list is repeated,
once for each value. A field that you leave out has its default, and so has a number that you set to
0, except where the description says what 0 means.

`DAEMON --config FILE --check` reads the file and reports the line and the field of the first error,
with exit code 2; `--print` prints all options in force, defaults included. `systemctl reload`
applies the fields whose description ends with "*Reload.*"; the others need a restart. The event
`reloaded` of the controller, and the log line of the same name of other daemons, lists those that
changed and wait for a restart.
"""


class Field:
    def __init__(self, label, kind, name, row, comment, section, where):
        self.is_list = label == "repeated"
        self.kind = kind
        self.name = name
        self.meaning = comment
        self.section = section
        self.where = where
        entries = {}
        at = 0
        while at < len(row.rstrip()):
            entry = ENTRY.match(row, at)
            if not entry:
                raise ValueError(f"{where}: {name}: cannot read its row at \"{row[at:].strip()}\"")
            value = entry[2]
            entries[entry[1]] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] == '"' else value
            at = entry.end()
        self.unit = entries.get("unit")
        self.can_reload = entries.get("reload") == "true"
        self.is_required = "required" in entries
        self.default = entries.get("otherwise")
        if "default" in entries:
            self.default = f'"{entries["default"]}"' if kind == "string" else entries["default"]

    def is_literal(self):
        return self.default is not None and LITERAL.fullmatch(self.default) is not None

    def type_name(self):
        name = TYPES.get(self.kind, "name")
        if not self.is_list:
            return name
        return "list of numbers" if name == "number" else f"list of {name}"

    def faults(self):
        if not self.meaning.endswith("."):
            yield "its comment is no full sentence"
        if self.default is None and not self.is_required:
            yield "its row has no default, otherwise or required"
        if TYPES.get(self.kind) == "number" and not self.unit:
            yield "its row has no unit"


class Schema:
    """The message of one schema: its example file, its fields and its enumerations."""

    def __init__(self, path, text):
        self.path = path
        self.fields = []
        self.values = []  # (name, meaning) of enumerations
        self.example = None
        comment, section, depth = [], "Fields", 0
        # Each field in one line, with its row.
        text = re.sub(r"\{\n([^{}]*)\n *\}\];", lambda row: "{" + " ".join(row[1].split()) + "}];", text)
        for line in text.splitlines():
            line = line.strip()
            if line.startswith("//"):
                comment.append(line[2:].strip())
                continue
            said = " ".join(comment)
            comment = []
            if not line:
                if said.startswith("Section: "):
                    section = said.removeprefix("Section: ")
                continue
            if line.startswith("message "):
                self.example = re.search(r"Example: (\S+)", said)[1]
                depth = 1
            elif line.startswith("enum "):
                depth = 2
            elif line == "}":
                depth -= 1
            elif depth == 2:
                self.values.append((line.split()[0], said))
            elif depth == 1 and (match := FIELD.match(line)):
                self.fields.append(Field(match[1], match[2], match[3], match[4] or "", said, section, path))


def read_schemas(root):
    return [Schema(path, (root / path).read_text()) for path, _, _ in SCHEMAS]


def shown_values(text):
    """{field: values that the example file shows, in comments or not}."""
    shown = {}
    for line in text.splitlines():
        # A line of words with a colon is no field.
        match = re.match(r'(?:# )?([a-z_]+): ("[^"]*"|[\w-]+)(?=\s*(?:#|[a-z_]+:|$))', line)
        if match:
            shown.setdefault(match[1], []).append(match[2])
    return shown


def find_faults(root):
    """What is missing in the comments of the schemas and in the example files."""
    listed = {path for path, _, _ in SCHEMAS}
    for path in sorted(root.glob("*/**/*config*.proto")):
        name = path.relative_to(root).as_posix()
        if not name.startswith("build/") and name not in listed:
            yield f"{name}: is not in docs/tools/configuration_reference.py"
    for schema in read_schemas(root):
        shown = shown_values((root / schema.example).read_text())
        names = {field.name for field in schema.fields}
        for name in sorted(shown.keys() - names):
            yield f"{schema.example}: {name} is no field of {schema.path}"
        for field in schema.fields:
            for fault in field.faults():
                yield f"{schema.path}: {field.name}: {fault}"
            if field.name not in shown:
                yield f"{schema.example}: {field.name} is missing"
            elif field.is_literal() and field.default not in shown[field.name]:
                yield (f"{schema.example}: {field.name} is shown as {shown[field.name][0]}, and its default is "
                       f"{field.default} in {schema.path}")


def cell(text):
    # Files of this folder, as links.
    return re.sub(r"\bdocs/([\w-]+\.md)\b", r"[\1](\1)", text.replace("|", "\\|"))


def write_fields(fields):
    yield "| Field | Type (unit) | Default | Meaning |"
    yield "|---|---|---|---|"
    for field in fields:
        default = f"`{field.default}`" if field.is_literal() else field.default or "*required*"
        meaning = field.meaning + (" *Reload.*" if field.can_reload else "")
        kind = field.type_name() + (f" ({field.unit})" if field.unit else "")
        yield f"| `{field.name}` | {kind} | {cell(default)} | {cell(meaning)} |"


def write_daemon(root, schema, daemon, installed):
    yield ""
    yield f"## {daemon}"
    yield ""
    yield f"The schema is `{schema.path}`. Packages install the example below as `{installed}`."
    sections = list(dict.fromkeys(field.section for field in schema.fields))
    for section in sections:
        yield ""
        yield f"### {daemon}: {section[0].lower()}{section[1:]}"
        yield ""
        yield from write_fields([field for field in schema.fields if field.section == section])
    if schema.values:
        yield ""
        yield "The names that `offload` takes:" if daemon == "espalier-dpdk" else "Names of values:"
        yield ""
        for name, meaning in schema.values:
            yield f"- `{name}`: {meaning}"
    yield ""
    yield f"### {daemon}: example"
    yield ""
    yield f"`{schema.example}`:"
    yield ""
    yield "```"
    yield (root / schema.example).read_text().rstrip("\n")
    yield "```"


def make(root):
    lines = [HEAD.rstrip("\n")]
    for schema, (_, daemon, installed) in zip(read_schemas(root), SCHEMAS):
        lines.extend(write_daemon(pathlib.Path(root), schema, daemon, installed))
    return "\n".join(lines) + "\n"
