package install

import (
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/sealift/sealift/installer/host/textfile"
	"github.com/sealift/sealift/spec"
)

// plainPath matches absolute paths of letters, digits, dots, dashes and underscores.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+/?$`)

// metricsFolder is where the agent writes the metrics of a node; "" if the Installer wants none.
func metricsFolder(o spec.Options) (string, error) {
	if isTrue(o, "disabled") {
		return "", nil
	}
	folder := word(o, "folder")
	if folder == "" {
		return textfile.DefaultFolder, nil
	}
	if !plainPath.MatchString(folder) || filepath.Clean(folder) == "/" {
		return "", fmt.Errorf("the Installer's metrics.folder is %q; name the folder that node_exporter reads, such as %s", folder, textfile.DefaultFolder)
	}
	return filepath.Clean(folder), nil
}

func (c *contents) checkMetrics() error {
	_, err := metricsFolder(c.spec.Section("metrics").Options)
	return err
}
