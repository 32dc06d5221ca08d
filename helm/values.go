package helm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"reflect"
	"regexp"
	"strconv"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/strictyaml"
)

var yamlLine = regexp.MustCompile(`line (\d+)`)

// ReadValues reads values as Helm does: YAML documents, and later ones win. An error is a *ValuesError.
func ReadValues(data []byte) (map[string]any, error) {
	values := make(map[string]any)
	// the reader may lose a last line without a line break
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(append(bytes.Clone(data), '\n'))))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		var more map[string]any
		if err == nil {
			err = strictyaml.CheckAliases(document)
		}
		if err == nil {
			err = yaml.Unmarshal(document, &more)
		}
		if err != nil {
			wrong := &ValuesError{Err: err}
			if at := yamlLine.FindStringSubmatch(err.Error()); at != nil {
				wrong.Line, _ = strconv.Atoi(at[1])
			}
			return nil, wrong
		}
		values = MergeValues(values, more)
	}
}

// MergeValues returns the values of both. Maps are merged; otherwise over wins.
func MergeValues(under, over map[string]any) map[string]any {
	merged := make(map[string]any, len(under)+len(over))
	maps.Copy(merged, under)
	for key, value := range over {
		inner, isMap := value.(map[string]any)
		if had, wasMap := merged[key].(map[string]any); isMap && wasMap {
			value = MergeValues(had, inner)
		}
		merged[key] = value
	}
	return merged
}

// SameValues reports whether two values that were read are the same, so that no upgrade is needed. Order and comments do
// not count; 1 and "1" differ. No values and an empty map are the same.
func SameValues(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}
