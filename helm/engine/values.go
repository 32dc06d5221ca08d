package engine

import (
	"bytes"
	"regexp"
	"strconv"

	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/sealift/sealift/helm"
)

var yamlLine = regexp.MustCompile(`line (\d+)`)

// readValues reads the values that were given.
func readValues(data []byte) (map[string]any, error) {
	values, err := loader.LoadValues(bytes.NewReader(data))
	if err != nil {
		wrong := &helm.ValuesError{Err: err}
		if at := yamlLine.FindStringSubmatch(err.Error()); at != nil {
			wrong.Line, _ = strconv.Atoi(at[1])
		}
		return nil, wrong
	}
	return values, nil
}
