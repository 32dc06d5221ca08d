package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// SchemaID is the name of the JSON schema of an Installer.
const SchemaID = "https://sealift.dev/schema/installer-v1.json"

// object is a part of a JSON schema.
type object map[string]any

// Schema returns the JSON schema (2020-12) of an Installer, for editors and other validators. It accepts everything that Parse accepts in
// the forms of today: LegacyAPIVersion, a missing API version or kind, old options and empty versions are only for Parse. It cannot express two rules of Parse: two
// spellings of one key, and options with the same variable.
func Schema() ([]byte, error) {
	keys := object{}
	for _, s := range sections() {
		keys[s.key] = object{"$ref": "#/$defs/" + s.key}
		if name := AddOnName(s.key); name != s.key {
			keys[name] = object{"$ref": "#/$defs/" + s.key}
		}
	}
	keys["ufw"] = object{"$ref": "#/$defs/ufwConfig"}
	definitions := object{
		"version": object{"type": []string{"string", "number"}, "pattern": addOnVersion.String(), "description": "such as 1.36.3; latest, or 1.36.x for the newest of a line"},
		"addOn": object{
			"description": "an add-on that kURL does not list; its addon.yaml says what options it has",
			"type":        "object", "required": []string{"version"},
			"properties":    object{"version": object{"$ref": "#/$defs/version"}},
			"propertyNames": object{"pattern": optionKey.String()},
		},
	}
	for _, s := range sections() {
		definitions[s.key] = s.schema()
	}
	return encodeSchema(object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SchemaID,
		"title": "Installer", "description": "which add-ons at which versions with which options make a cluster",
		"type": "object", "required": []string{"apiVersion", "kind", "spec"}, "additionalProperties": false,
		"properties": object{
			"apiVersion": object{"enum": []string{APIVersion, KurlAPIVersion}}, "kind": object{"const": Kind},
			"metadata": object{"type": "object", "additionalProperties": false, "properties": anyOf(metadataKeys(), object{"name": object{"type": "string"}})},
			"spec": object{
				"type": "object", "minProperties": 1, "properties": keys,
				"propertyNames": object{"pattern": addOnKey.String()}, "additionalProperties": object{"$ref": "#/$defs/addOn"},
			},
			"status": true,
		},
		"$defs": definitions,
	})
}

// anyOf returns properties that allow any value for each name, except those in given.
func anyOf(names []string, given object) object {
	properties := object{}
	for _, name := range names {
		properties[name] = true
		if of, ok := given[name]; ok {
			properties[name] = of
		}
	}
	return properties
}

func (s section) schema() object {
	properties := object{}
	for _, f := range s.all() {
		properties[f.key] = f.schema()
		if lower := strings.ToLower(f.key); lower != f.key {
			spelling := f.schema()
			spelling["deprecated"] = true // editors do not offer it
			properties[lower] = spelling
		}
	}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false}
	if s.versionless {
		schema["type"] = []string{"object", "null"}
	} else {
		schema["required"] = []string{"version"}
		properties["version"] = object{"$ref": "#/$defs/version"}
	}
	return schema
}

// schema returns the schema of a field. null stands for an absent field.
func (f field) schema() object {
	o := object{}
	switch f.is {
	case login:
		return oidcSchema()
	case level:
		o["enum"] = []any{string(level), nil}
	case text:
		o["type"] = []string{"string", "number", "boolean", "null"}
	case boolean:
		o["type"] = []string{"boolean", "null"}
	case integer:
		o["type"] = []string{"integer", "null"}
	case list:
		o["type"], o["items"] = []string{"array", "null"}, object{"type": []string{"string", "number", "boolean"}}
	case commands:
		words := object{"type": "array", "items": object{"type": []string{"string", "number", "boolean"}}}
		o["type"], o["items"] = []string{"array", "null"}, words
	case cidrSize:
		o["type"], o["pattern"] = []string{"string", "integer", "null"}, slashSize.String()
	}
	if f.is != anything {
		o["description"] = string(f.is)
	}
	if f.initial != "" {
		o["default"] = f.initial
		if f.is == boolean {
			o["default"] = f.initial == "1"
		}
	}
	return o
}

func encodeSchema(schema object) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return out.Bytes(), nil
}
