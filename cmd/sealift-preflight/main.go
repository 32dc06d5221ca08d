// Command sealift-preflight runs Troubleshoot's collectors and analyzers for sealift, which does not link them: they are
// larger than everything else together.
//
//	sealift-preflight check   [FILE...]                               HostPreflight specifications
//	sealift-preflight collect --dir DIR [--kubeconfig FILE] [FILE...] SupportBundle specifications
//
// The specifications come from files or standard input, templates already filled in. Results go to standard output as one JSON
// document, a preflight.Report; the output of collectors goes to standard error. Nothing on the host is changed but DIR, and
// nothing is sent anywhere.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sealift/sealift/preflight"
)

// collectorTime is how long one collector may take. The slowest, which measures a disk, takes two minutes.
const collectorTime = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	out := os.Stdout
	os.Stdout = os.Stderr // some collectors print
	err := run(ctx, os.Args[1:], os.Stdin, out)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(os.Stderr, usage)
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "sealift-preflight: %v\n\n%s", err, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "sealift-preflight: %v\n", err)
		os.Exit(1)
	}
}

const usage = `Run the checks and collectors of Troubleshoot specifications for sealift, and print the results as JSON.

Usage:
  sealift-preflight check [FILE...]
  sealift-preflight collect --dir DIR [--kubeconfig FILE] [FILE...]

Without a FILE, the specifications are read from standard input. The results go to standard output.
`

var errUsage = errors.New("wrong usage")

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: say check or collect", errUsage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	var dir, kubeconfig string
	switch args[0] {
	case "-h", "--help", "help":
		return flag.ErrHelp
	case "check":
	case "collect":
		flags.StringVar(&dir, "dir", "", "folder for the collected files; all of them are redacted")
		flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster, if there is one")
	default:
		return fmt.Errorf("%w: unknown command %q; say check or collect", errUsage, args[0])
	}
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	texts, err := read(flags.Args(), in)
	if err != nil {
		return err
	}
	specs, bad := load(ctx, texts)
	var found []preflight.Result
	if args[0] == "check" {
		found, err = check(ctx, specs.HostPreflightsV1Beta2)
	} else {
		found, err = gather(ctx, dir, kubeconfig, specs)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(preflight.Report{Results: append(bad, found...)})
}
