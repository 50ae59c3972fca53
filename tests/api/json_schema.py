"""JSON Schema, as far as pawl's OpenAPI document uses it. A keyword that is not known here is an error, not a pass."""
import re

TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "null": lambda v: v is None,
}
SAYS_NOTHING = {"description", "contentMediaType", "contentSchema"}
DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


class Schemas:
    def __init__(self, document):
        self.document = document

    def resolve(self, reference):
        value = self.document
        assert reference.startswith("#/"), reference
        for part in reference[2:].split("/"):
            value = value[part]
        return value

    def problems(self, schema, value, place=""):
        """Everything that is wrong with the value, as texts."""
        out = []
        for keyword, argument in schema.items():
            if keyword not in SAYS_NOTHING:
                out += getattr(self, "check_" + keyword.replace("$", ""))(argument, value, place, schema)
        return out

    def check_ref(self, argument, value, place, _):
        return self.problems(self.resolve(argument), value, place)

    def check_type(self, argument, value, place, _):
        allowed = argument if isinstance(argument, list) else [argument]
        return [] if any(TYPES[t](value) for t in allowed) else [f"{place}: {value!r} is not {argument}"]

    def check_enum(self, argument, value, place, _):
        return [] if value in argument else [f"{place}: {value!r} is none of {argument}"]

    def check_anyOf(self, argument, value, place, _):
        tried = [self.problems(schema, value, place) for schema in argument]
        return [] if any(not found for found in tried) else min(tried, key=len)

    def check_pattern(self, argument, value, place, _):
        return [] if not isinstance(value, str) or re.search(argument, value) else [f"{place}: {value!r} !~ {argument}"]

    def check_format(self, argument, value, place, _):
        assert argument == "date-time", argument
        return [] if not isinstance(value, str) or DATE_TIME.fullmatch(value) else [f"{place}: {value!r} is no time"]

    def check_minimum(self, argument, value, place, _):
        return [f"{place}: {value} < {argument}"] if TYPES["number"](value) and value < argument else []

    def check_maximum(self, argument, value, place, _):
        return [f"{place}: {value} > {argument}"] if TYPES["number"](value) and value > argument else []

    def check_maxLength(self, argument, value, place, _):
        return [f"{place}: longer than {argument}"] if isinstance(value, str) and len(value) > argument else []

    def check_items(self, argument, value, place, _):
        if not isinstance(value, list):
            return []
        return [p for i, item in enumerate(value) for p in self.problems(argument, item, f"{place}/{i}")]

    def check_properties(self, argument, value, place, _):
        if not isinstance(value, dict):
            return []
        return [p for key in argument if key in value
                for p in self.problems(argument[key], value[key], f"{place}/{key}")]

    def check_required(self, argument, value, place, _):
        return [f"{place}/{key} is missing" for key in argument if isinstance(value, dict) and key not in value]

    def check_additionalProperties(self, argument, value, place, schema):
        assert isinstance(argument, bool), argument
        if argument or not isinstance(value, dict):
            return []
        return [f"{place}/{key} is not described" for key in value if key not in schema["properties"]]
