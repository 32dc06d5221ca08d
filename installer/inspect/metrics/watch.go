package metrics

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sealift/sealift/installer/host/textfile"
	"github.com/sealift/sealift/installer/inspect/status"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/poll"
)

// pause is the time between two passes. Prometheus reads node_exporter every 15 to 60 seconds.
const pause = time.Minute

// Watch writes the metrics of this node into a folder until ctx ends. "" writes none, and removes those of an earlier setting. version is
// that of this sealift.
func Watch(ctx context.Context, root, folder, version string, log *slog.Logger) {
	place := textfile.Place{Memory: node.TextfileFile(root)}
	if folder == "" {
		if err := place.Remove(); err != nil {
			log.Warn("metrics of an earlier setting are still there", "error", err)
		}
		return
	}
	var told poll.Told
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		if err := write(ctx, place, root, folder, version); told.IsNew(ctx, err) {
			log.Warn("the metrics of this node are not complete", "error", err)
		}
		return pause
	})
}

// write makes one pass. Metrics that say that the status cannot be read are written, too.
func write(ctx context.Context, place textfile.Place, root, folder, version string) error {
	s, err := status.Read(ctx, root)
	if ctx.Err() != nil {
		return err
	}
	text, failed := Pass{Status: s, Failed: err != nil, Time: time.Now(), Version: version}.Text()
	if failed == nil {
		failed = place.Write(folder, text)
	}
	return errors.Join(err, failed)
}
