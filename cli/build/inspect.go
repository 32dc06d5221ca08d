package build

import (
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/cli/evidence"
	"github.com/sealift/sealift/store"
)

// inspectCommand extends the inspect command of nodes: it also prints bills of materials and vulnerabilities.
func (a commands) inspectCommand() *cobra.Command {
	var materials, signatures, licenses bool
	var settings string
	var vulnerabilities evidence.Vulnerabilities
	cmd := archive.Inspect(a.App)
	cmd.Long += `

With --sbom, print the bill of materials instead, SPDX 2.3 in JSON. For a bundle, the documents of its packages are
merged.

With --vulnerabilities, look for known vulnerabilities in the packages inside of image layers and in the Go modules of programs, and print them by
severity, with the version that fixes them and all places. That reads the whole archive, and no network: the database is a file
that 'sealift vulndb pull' has made. Its age comes first. What cannot be judged is listed as unknown. OpenVEX documents
except vulnerabilities, with their reason. --fail-on makes a policy of it: the exit code is 3 if a vulnerability is left.

With --licenses, list the licenses of packages in image layers, host packages, images, add-ons and texts, those that are unknown first. If
sealift.yaml has licenses, the exit code is 3 if something has a license that is forbidden and not excepted.

With --signatures, list what upstream attached to each image, and which images are unsigned. If sealift.yaml has signatures,
verify them as 'sealift build' does: the exit code is 3 if an image lacks the signature that is demanded.`
	cmd.Example += `
  sealift inspect cluster.tar.gz --sbom >cluster.spdx.json
  sealift inspect cluster.tar.gz --vulnerabilities vulnerabilities.tar.gz --vex ours.vex.json --fail-on high
  sealift inspect new.tar.gz --vulnerabilities vulnerabilities.tar.gz --since old.tar.gz
  sealift inspect cluster.tar.gz --licenses
  sealift inspect cluster.tar.gz --licenses -o json | jq -r '.components[] | select(.license == "NOASSERTION").name'
  sealift inspect cluster.tar.gz --signatures
  sealift inspect cluster.tar.gz --signatures --config site/sealift.yaml -o json | jq '.images[] | select(.state != "verified")'`
	show := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := vulnerabilities.Check(); err != nil {
			return err
		}
		format := cmd.Flag("output").Value.String()
		switch {
		case vulnerabilities.Base != "" && vulnerabilities.Database == "" && !signatures && !licenses:
			return app.UsageError("--base needs --vulnerabilities, --licenses or --signatures; see 'sealift inspect --help'")
		case settings != "" && !signatures && !licenses:
			return app.UsageError("--config needs --licenses or --signatures; see 'sealift inspect --help'")
		case licenses:
			return evidence.Licenses(cmd.Context(), a.App, args[0], vulnerabilities.Base, settings, format)
		case signatures:
			return evidence.Signatures(cmd.Context(), a.App, args[0], vulnerabilities.Base, settings, format)
		case vulnerabilities.Database != "":
			return vulnerabilities.Run(cmd.Context(), a.App, args[0], format)
		case !materials:
			return show(cmd, args)
		}
		opened, err := archive.Open(cmd.Context(), store.Opener{Log: a.Log, CAs: a.CAs}, args[0])
		if err != nil {
			return err
		}
		defer opened.Close()
		return a.printMaterials(opened, args[0])
	}
	cmd.Flags().BoolVar(&materials, "sbom", false, "print the bill of materials, SPDX 2.3 in JSON")
	cmd.Flags().BoolVar(&signatures, "signatures", false, "list the signatures of images, and verify those that sealift.yaml demands")
	cmd.Flags().BoolVar(&licenses, "licenses", false, "list licenses, and hold them against sealift.yaml")
	cmd.Flags().StringVar(&settings, "config", "", "with --signatures or --licenses: the file with the policy (default: sealift.yaml of the working directory)")
	vulnerabilities.Flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("entries", "sbom", "vulnerabilities", "licenses", "signatures")
	return cmd
}

// maxMaterials bounds the bill of materials of one package, in bytes; each line of one has some hundred.
const maxMaterials = 64 << 20

func (a commands) printMaterials(from *bundle.Archive, name string) error {
	var documents [][]byte
	for _, p := range from.Index.Packages {
		data, err := from.ReadFile(path.Join(p.Dir(), sbom.FileName), maxMaterials)
		if err != nil {
			return fmt.Errorf("%s: bill of materials of %s %s: %w; build the package again", name, p.Name, p.Version, err)
		}
		documents = append(documents, data)
	}
	if from.Index.Kind == bundle.KindPackage {
		_, err := a.Out.Write(documents[0])
		return err
	}
	merged, err := sbom.Merge(from.Digest, documents...)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(merged)
	return err
}
