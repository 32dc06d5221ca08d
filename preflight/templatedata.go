package preflight

import (
	"strings"

	"github.com/sealift/sealift/spec"
)

// templateData is the data of kURL's templates, with the field names of kURL's Go types: .Installer.Spec.Rook.Version and
// so on.
func templateData(n Node, i *spec.Installer) map[string]any {
	specification := map[string]any{}
	for key, options := range i.Values() {
		fields := map[string]any{}
		if key == "kurl" && n.AirGap {
			options["airgap"] = true
		}
		for option, value := range options {
			for _, name := range goNames(option) {
				fields[name] = value
			}
		}
		for _, name := range goNames(key) {
			specification[name] = fields
		}
	}
	return map[string]any{
		"Installer": map[string]any{"Name": i.Name, "ObjectMeta": map[string]any{"Name": i.Name}, "Spec": specification},
		"IsPrimary": n.Primary, "IsJoin": n.Join, "IsUpgrade": n.Upgrade,
		"PrimaryHosts": n.PrimaryHosts, "SecondaryHosts": n.SecondaryHosts,
		"RemoteHosts": append(append([]string{}, n.PrimaryHosts...), n.SecondaryHosts...),
	}
}

// goNames returns the names that a key may have in kURL's Go types: capitalised, and with abbreviations in capitals where
// the type has them so.
func goNames(key string) []string {
	names := []string{strings.ToUpper(key[:1]) + key[1:]}
	for abbreviation, capitals := range map[string]string{"ui": "UI", "aws": "AWS", "ufw": "UFW", "http": "HTTP", "https": "HTTPS", "tls": "TLS", "rke2": "RKE2", "k3s": "K3S", "openebs": "OpenEBS", "ipv6": "IPv6"} {
		if rest, ok := strings.CutPrefix(key, abbreviation); ok && (rest == "" || rest[0] >= 'A' && rest[0] <= 'Z') {
			names = append(names, capitals+rest)
		}
	}
	return names
}
