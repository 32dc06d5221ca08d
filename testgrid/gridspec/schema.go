package gridspec

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/sealift/sealift/spec"
)

// SchemaID is the name of the JSON schema of a file of tests.
const SchemaID = "https://sealift.dev/schema/testgrid-v1.json"

// object is a part of a JSON schema.
type object map[string]any

// duration is a Go duration, such as 1m30s.
func duration() object {
	return object{"type": "string", "pattern": `^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`}
}

// Schema returns the JSON schema (2020-12) of a file of tests, for editors and other validators. It contains the schema of an
// Installer. It cannot express that the number of a node is not above the number of nodes.
func Schema() ([]byte, error) {
	text, err := spec.Schema()
	if err != nil {
		return nil, err
	}
	var installer struct {
		Properties struct {
			Spec object `json:"spec"`
		} `json:"properties"`
		Defs map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal(text, &installer); err != nil {
		return nil, fmt.Errorf("read the schema of an Installer: %w", err)
	}
	definitions := installer.Defs
	if version, ok := definitions["version"].(map[string]any); ok {
		definitions["version"] = object{"anyOf": []any{version, object{"const": versionPlaceholder}}}
	}
	definitions["installerSpec"] = installer.Properties.Spec
	definitions["test"] = testSchema()
	definitions["expectation"] = expectationSchema()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SchemaID,
		"title": "Tests of the grid", "description": "a list of tests, in kURL's format and with fields of Sealift",
		"type": "array", "minItems": 1, "items": object{"$ref": "#/$defs/test"}, "$defs": definitions,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return out.Bytes(), nil
}

// words describes text, which YAML may read as another scalar.
func words(description string) object {
	return object{"type": []string{"string", "number", "boolean", "null"}, "description": description}
}

func number(least, most int, description string) object {
	return object{"description": description, "anyOf": []object{
		{"type": "integer", "minimum": least, "maximum": most}, {"type": "string", "pattern": "^[0-9]+$"}}}
}

// optional also allows null and other values that stand for an absent key.
func optional(of object, absent ...any) object {
	return object{"anyOf": []object{of, {"enum": append([]any{nil}, absent...)}}}
}

func size(description string) object {
	return object{"type": []string{"string", "integer"}, "pattern": sizePattern.String(), "description": description}
}

// closed describes a mapping that has these keys and no others.
func closed(description string, properties object, required ...string) object {
	o := object{"type": "object", "description": description, "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

func array(items object) object { return object{"type": []string{"array", "null"}, "items": items} }

func testSchema() object {
	node := number(1, maxNodes, "the node; 1 installs, the others follow in the order in which they join")
	step := object{"type": "string", "pattern": stepID.String(), "description": "ID of a step in the journal, such as containerd/install"}
	after, during := duration(), object{"const": "upgrade", "description": "the step is one of the upgrade"}
	installer := object{"$ref": "#/$defs/installerSpec"}
	return closed("one test; it runs on every system that does not refuse it", object{
		"name": words("what the report calls the test"), "installerSpec": installer, "upgradeSpec": optional(installer),
		"flags":           words("arguments of the installer"),
		"airgap":          object{"type": []string{"boolean", "null"}, "description": "install from a bundle, on hosts that reach nothing else"},
		"cpu":             optional(number(1, maxCPU, "processors of each node"), ""),
		"memory":          optional(size("memory of each node, such as 16Gi"), ""),
		"numPrimaryNodes": optional(number(0, maxNodes, "control planes, with the first node; 0 is 1")), "numSecondaryNodes": optional(number(0, maxNodes, "workers")),
		"unsupportedOSIDs": array(object{"type": "string", "pattern": systemID.String()}),
		"preInstallScript": words("bash on the first node"), "postInstallScript": words("bash on the first node"),
		"preUpgradeScript": words("bash on the first node"), "postUpgradeScript": words("bash on the first node"),
		"supportbundleSpec":    object{"type": []string{"object", "string", "null"}},
		"installerApiEndpoint": words("server of Installers"), "upgradeApiEndpoint": words("server of Installers"),
		"join": array(closed("a node that joins", object{"role": object{"enum": []string{Worker, ControlPlane}}, "flags": words("more arguments")})),
		"kill": array(closed("the installer is killed in a step and runs again",
			object{"node": node, "step": step, "after": after, "during": during, "signal": object{"enum": []string{"KILL", "TERM", "INT"}}}, "step")),
		"powerCut": array(closed("the node loses its power in a step", object{"node": node, "step": step, "after": after, "during": during}, "step")),
		"cutNetwork": array(closed("the node loses its network in a step",
			object{"node": node, "step": step, "after": after, "during": during, "lasts": duration()}, "step", "lasts")),
		"clock":  array(closed("the clock of a node is wrong", object{"node": node, "offset": duration()}, "offset")),
		"expect": array(object{"$ref": "#/$defs/expectation"}),
		"reset":  object{"enum": []any{"clean", nil}},
	}, "installerSpec")
}

func expectationSchema() object {
	node := number(1, maxNodes, "the node; 1 installs")
	o := closed("what is true in the end", object{
		"within":        duration(),
		"nodesReady":    number(1, maxNodes, "so many nodes are Ready, and there is no other"),
		"podsRunning":   words("all, or the name of a namespace"),
		"noImagePulled": object{"const": true},
		"http":          closed("an answer", object{"node": node, "url": object{"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://."}, "status": number(100, 599, "200 by default"), "contains": words("text in the answer")}, "url"),
		"command":       closed("the result of a script", object{"node": node, "run": words("bash"), "exit": number(0, 255, "0 by default"), "contains": words("text in the output")}, "run"),
		"bytesFetched":  closed("what a node received over its network", object{"node": node, "most": size("such as 10Mi")}, "most"),
		"took":          closed("the time of a part; more is a warning", object{"part": object{"enum": []string{"install", "join", "upgrade", "reset"}}, "most": duration()}, "part", "most"),
	})
	var one []object
	for _, kind := range expectKinds() {
		one = append(one, object{"required": []string{kind}})
	}
	o["oneOf"] = one
	return o
}
