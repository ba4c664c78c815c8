"""Makes docs/api.md from the description of the controller's HTTP interface (OpenAPI 3.1)."""
import json

DESCRIPTION = "controller/api/openapi.json"

HEAD = """\
<!-- Made by docs/tools/reference.py from controller/api/openapi.json. Do not edit. -->
# HTTP interface

{description}

The same description for programs, in OpenAPI 3.1, is at `/api/v1/openapi.json` of every controller.

## Addresses and access
The field `http` of the [controller's configuration](configuration.md#espalier-controller) names the
addresses. The examples use its Unix socket, which the users of its group can reach without a token:
```
curl --unix-socket /run/espalier-controller/controller.sock http://localhost/api/v1/status
```
Over TCP, add a token: `curl -H "Authorization: Bearer $TOKEN" https://HOST:PORT/api/v1/status`.

{access}

A request that a page of another site sends is refused with 403.

## Long lists
Requests with the parameters `limit` and `after` return long lists in pages. If there are more items,
the answer contains `next`: pass its value, URL-encoded, as `after` to get the next page. Flows that start
or end between two pages may be missing or not.

## Errors
A request that fails is answered with one of these codes and an [Error](#error) as its body:

| Code | Meaning |
|---|---|
{errors}

```
{{"error": {{"code": "not found", "message": "there is no flow \\"h0:7\\" (`espalier flows` lists them)"}}}}
```

"""

# What the codes mean in any answer (controller/api/operator_api.cc, controller/api/http/http_guard.cc).
ERRORS = {
    "400": "A parameter or the body is malformed or out of range.",
    "401": "The token or cookie is missing, wrong or expired.",
    "403": "The role of the token does not allow the request, or a page of another site sent it.",
    "404": "There is no such path, link, node, flow, job, policy or revision.",
    "409": "The present state does not allow the action.",
    "429": "The controller has too many requests or streams at the moment. Try again later.",
    "500": "The controller failed, for example because its disk is full.",
}

EXAMPLE_HOST = "http://localhost"
SOCKET = "--unix-socket /run/espalier-controller/controller.sock"


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def reference_of(schema):
    return schema["$ref"].rsplit("/", 1)[1] if "$ref" in schema else None


def type_name(schema):
    """The schema's type as a reader sees it, with a link to what it refers to."""
    name = reference_of(schema)
    if name:
        return f"[{name}](#{name.lower()})"
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {type_name(schema['items'])}"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{value}`" if value else "empty" for value in schema["enum"])
    return kind


def list_fields(schema, prefix=""):
    """(name, schema, is required) of all fields, with those of fields: `paths[].links[].state`."""
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        yield prefix + name, field, name in required
        inner, suffix = field, "."
        while inner.get("type") == "array":
            inner, suffix = inner["items"], "[]" + suffix
        yield from list_fields(inner, prefix + name + suffix)


def find_faults(root):
    """What the description leaves out."""
    description = json.loads((root / DESCRIPTION).read_text())
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            where = f"{DESCRIPTION}: {method} {path}"
            if not operation.get("summary", "").endswith("."):
                yield f"{where}: its summary is no full sentence"
            for parameter in operation.get("parameters", []):
                if not parameter.get("description", "").endswith("."):
                    yield f"{where}: {parameter['name']}: its description is no full sentence"
            for code in operation["responses"]:
                if code != "200" and code not in ERRORS:
                    yield f"{where}: {code} is not explained in docs/tools/api_reference.py"
    for name, schema in description["components"]["schemas"].items():
        for field, inner, _ in list_fields(schema):
            if not inner.get("description", "").endswith("."):
                yield f"{DESCRIPTION}: {name}: {field}: its description is no full sentence"


def write_example(path, method, operation):
    parameters = operation.get("parameters", [])
    # Optional parameters make an example of a list narrower than what one asks for first.
    shown = [p for p in parameters if p.get("required")] or \
        [p for p in parameters if p["name"] in ("limit", "dry_run")]
    query = "&".join(f"{p['name']}={p['example']}" for p in shown)
    url = EXAMPLE_HOST + path + ("?" + query if query else "")
    words = ["curl", SOCKET]
    if method == "post":
        words.append("-X POST")
    for content in operation.get("requestBody", {}).get("content", {}).values():
        body = content.get("example", "$TOKEN")
        text = body if isinstance(body, str) else json.dumps(body)
        words.append(f"-d \"{text}\"" if text.startswith("$") else f"-d '{text}'")
    words.append(f"'{url}'" if "?" in url else url)
    yield "```"
    yield " ".join(words)
    yield "```"


def write_answer(operation):
    """What a request that succeeds is answered with."""
    answer = operation["responses"]["200"]
    for kind, content in answer.get("content", {}).items():
        schema = content.get("schema", {})
        name = type_name(schema) if reference_of(schema) else f"`{kind}`"
        said = answer["description"]
        return f"**Answer:** {name}" + ("." if said == "The answer." else f". {said}")
    return f"**Answer:** {answer['description']}"


def write_operation(path, method, operation):
    yield ""
    yield f"### {method.upper()} {path}"
    yield ""
    yield operation["summary"]
    if parameters := operation.get("parameters"):
        yield ""
        yield "| Parameter | Required | Meaning | Example |"
        yield "|---|---|---|---|"
        for parameter in parameters:
            required = "yes" if parameter.get("required") else "no"
            yield f"| `{parameter['name']}` | {required} | {cell(parameter['description'])} | `{parameter['example']}` |"
    if body := operation.get("requestBody"):
        for kind, content in body["content"].items():
            reference = reference_of(content["schema"])
            yield ""
            yield f"**Body:** {type_name(content['schema']) if reference else f'`{kind}`'}. {body['description']}"
    yield ""
    errors = ", ".join(code for code in operation["responses"] if code != "200")
    yield write_answer(operation) + (f" **Errors:** {errors}." if errors else "")
    yield ""
    yield from write_example(path, method, operation)


def write_schema(name, schema):
    yield ""
    yield f"### {name}"
    yield ""
    if "description" in schema:
        yield schema["description"]
        yield ""
    if "enum" in schema:
        yield "One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "."
        return
    fields = list(list_fields(schema))
    if not fields:
        yield "An object without fields."
        return
    yield "| Field | Type | Meaning |"
    yield "|---|---|---|"
    for field, inner, required in fields:
        yield (f"| `{field}` | {type_name(inner)} | {cell(inner['description'])}"
               f"{'' if required else ' *May be absent.*'} |")


def make(root):
    description = json.loads((root / DESCRIPTION).read_text())
    parts = description["components"]
    used = {code for operations in description["paths"].values() for operation in operations.values()
            for code in operation["responses"]}
    lines = [HEAD.format(
        description=description["info"]["description"],
        access=" ".join(scheme["description"] for scheme in parts["securitySchemes"].values()),
        errors="\n".join(f"| {code} | {meaning} |" for code, meaning in ERRORS.items() if code in used)).rstrip("\n")]
    lines += ["", "## Requests"]
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            lines.extend(write_operation(path, method, operation))
    lines += ["", "## Objects"]
    for name, schema in parts["schemas"].items():
        lines.extend(write_schema(name, schema))
    return "\n".join(lines) + "\n"
