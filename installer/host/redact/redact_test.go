package redact_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/installer/host/redact"
)

func masked(t testing.TB, text string) string {
	t.Helper()
	var out strings.Builder
	if err := redact.New().Copy(&out, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nq83vASNFZ4k=\n-----END RSA PRIVATE KEY-----\n"

func TestSecretsAreMasked(t *testing.T) {
	const m = redact.Mask
	tests := map[string]struct{ text, want string }{
		"a private key":                       {"before\n" + key + "after\n", "before\n" + m + "\n" + m + "\n" + m + "\n" + m + "\nafter\n"},
		"a private key in one line":           {`{"key":"` + strings.ReplaceAll(key, "\n", `\n`) + `","a":1}`, `{"key":"` + m + `\n","a":1}`},
		"a private key that is cut off":       {"-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA", m + "\n" + m},
		"a private key in base64":             {"  data: " + base64.StdEncoding.EncodeToString([]byte(key)) + "\n", "  data: " + m + "\n"},
		"the key of a kubeconfig":             {"    client-key-data: " + base64.StdEncoding.EncodeToString([]byte(key)) + "\n", "    client-key-data: " + m + "\n"},
		"the token of a kubeconfig":           {"    token: abc.def\n", "    token: " + m + "\n"},
		"a token with a key of certificates":  {"echo 'abcdef.0123456789abcdef " + strings.Repeat("0f", 32) + "' | bash join.sh control-plane\n", "echo '" + m + "' | bash join.sh control-plane\n"},
		"a token of kubeadm in a sentence":    {"join with abcdef.0123456789abcdef now\n", "join with " + m + " now\n"},
		"the command that joins":              {"kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:12ab \\\n", "kubeadm join 10.0.0.1:6443 --token " + m + " --discovery-token-ca-cert-hash sha256:12ab \\\n"},
		"the key of certificates, as a flag":  {"\t--control-plane --certificate-key " + strings.Repeat("0a", 32) + "\n", "\t--control-plane --certificate-key " + m + "\n"},
		"the key of certificates, alone":      {"[upload-certs] Using certificate key:\n" + strings.Repeat("0a", 32) + "\n", "[upload-certs] Using certificate key:\n" + m + "\n"},
		"a JSON Web Token":                    {"Got eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl from it\n", "Got " + m + " from it\n"},
		"a header":                            {"Authorization: Bearer c2lnbmF0dXJl\n", "Authorization: " + m + "\n"},
		"an address with a password":          {"proxy http://ship:anchor@10.0.0.1:3128/ is used\n", "proxy http://ship:" + m + "@10.0.0.1:3128/ is used\n"},
		"a variable":                          {"export REGISTRY_PASSWORD=anchor; run\n", "export REGISTRY_PASSWORD=" + m + "; run\n"},
		"a variable in quotes":                {"declare -x MINIO_SECRET_KEY=\"a b c\"\n", "declare -x MINIO_SECRET_KEY=\"" + m + "\"\n"},
		"an option of an Installer":           {"    kubeadmToken: 'a b'\n    certKey: abc\n", "    kubeadmToken: '" + m + "'\n    certKey: " + m + "\n"},
		"JSON":                                {`{"user": "x", "password": "a\"b c", "more": 1}`, `{"user": "x", "password": "` + m + `", "more": 1}`},
		"JSON within JSON":                    {`{"last": "{\"password\":\"a b\",\"x\":1}"}`, `{"last": "{\"password\":\"` + m + `\",\"x\":1}"}`},
		"a block of YAML":                     {"password: |\n  one\n\n  two\nuser: x\n", "password: |\n  " + m + "\n\n  " + m + "\nuser: x\n"},
		"an entry of an environment":          {"- name: DB_PASSWORD\n  value: anchor\n- name: DB\n  value: x\n", "- name: DB_PASSWORD\n  value: \"" + m + "\"\n- name: DB\n  value: x\n"},
		"an entry of an environment, in JSON": {"\"name\": \"DB_PASSWORD\",\n\"value\": \"anchor\"\n", "\"name\": \"DB_PASSWORD\",\n\"value\": \"" + m + "\"\n"},
		"a line that never ends":              {"a\n" + strings.Repeat("x", 2<<20) + "\nb\n", "a\n" + m + " (a line of more than 1 MiB)\nb\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := masked(t, tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(got, masked(t, got)); diff != "" {
				t.Errorf("masking twice changes it (-once +twice)\n%s", diff)
			}
		})
	}
}

// TestNoPartOfSecretRemains has the secret PEARL in forms in which a part of it was once left.
func TestNoPartOfSecretRemains(t *testing.T) {
	for _, text := range []string{
		"password: my PEARL here", "  password: a,PEARL;PEARL", "PASSWORD=abc&PEARL", "PASSWORD=a PEARL", `password='it'\\''s PEARL'`,
		`Environment="DB_PASSWORD=abc PEARL" "X=1"`, "DB_PASS=PEARL", "-o username=x,pass=PEARL,vers=3", "SHARED_PASSWORD_BCRYPT=PEARL", "password_hash: PEARL",
		"http_proxy=http://user:pa@PEARL@proxy:3128/", "proxyAddress: http://u:p/PEARL@h:1", "https://ghp_01234567PEARL@host/x",
		"  auth: PEARL+01234567=", `{"auths":{"r":{"auth":"PEARL01234567"}}}`, "auth = \"PEARL01234567\"", `{"a":"{\\"auth\\":\\"PEARL01234567\\"}"}`,
		"machine x login y password PEARL", "  password PEARL", "https://b.s3/x?X-Amz-Signature=PEARL&a=1", "https://b.blob/x?a=1&sig=PEARL",
		"root 1 curl -u admin:PEARL https://x", `--password "a PEARL c"`, "x --token 'a PEARL'", "sealift serve --write-token PEARL",
		"> Authorization: Negotiate PEARL", "Authorization: Digest response=\"PEARL\"", "Cookie: a=b; session=PEARL",
		"-----BEGIN PGP PRIVATE KEY BLOCK-----\nPEARL\n-----END PGP PRIVATE KEY BLOCK-----",
		"password:\n  PEARL", "passwords:\n- PEARL\nx: y", "tokens: [a, PEARL]", "\"tokens\": [\n  \"PEARL\"\n]", "\"token\":{\"value\":\"PEARL\"}",
		"password: \"abc\\\n  PEARL\"", "password: abc\n  PEARL", "password => PEARL", "the password is: PEARL",
		`{"name":"DB_PASSWORD","value":"PEARL"}`, `{"value":"PEARL","name":"DB_PASSWORD"}`, `{\\"name\\":\\"DB_PASSWORD\\",\\"value\\":\\"PEARL\\"}`,
		"Login with password (will not be shown again): PEARLpearl", "generated user:password of admin:PEARL", "generated admin:PEARL of prometheus",
		"mysql -u root -pPEARL db", "/usr/bin/mysqldump -h db -pPEARL", "sshpass -p PEARL ssh x", "sshpass -pPEARL ssh x", "redis-cli -h x -a PEARL ping",
		"Server=x;User=y;pwd=PEARL;", "AccountName=x;AccountKey=PEARL/+abc==;", "ghp_PEARL0123456789abcdef0123456789abcdef", "key AKIAPEARL0123456789A used",
		"xoxb-123456789012-PEARL", ".dockerconfigjson: UEVBUkwPEARL0123==", `".dockerconfigjson":"eyJhdXRocyI6PEARL="`, "glpat-PEARL0123456789abcdef",
		"# AGE-SECRET-KEY-1PEARL0QQQQ", "key is age-secret-key-1PEARL0123456789 here", "AGE-SECRET-KEY-PQ-1PEARL0123456789",
		"openssl enc -aes-256-cbc -k PEARL -in a", "/usr/bin/openssl enc -d -K PEARL -iv 00", `openssl enc -salt -k "a PEARL"`, "openssl rsa -passin pass:PEARL -in a -passout pass:PEARL",
		"vault login s.PEARL0123456789abcdefABC", "X-Vault: hvs.CAESPEARL", "hvb.PEARL0123456789abcdef", "s.PEARL0123456789abcdefABC.Nsp01",
		"smtpPass: PEARLpearl", `"dbPass":"PEARL"`, "userPass=PEARL", "--smtpPass PEARL", "console:\n  smtpPass: |\n    PEARL\n", `- name: dbPass` + "\n  value: PEARL",
		`{"pass": "a\"b PEARL", "x": 1}`, `{"x": "{\"pass\":\"PEARL\"}"}`,
		"- name: DB_PASSWORD\n  # c\n  value: PEARL", "- name: TOKEN\n  value: |\n    PEARL\n",
	} {
		got := masked(t, text+"\n")
		if strings.Contains(got, "PEARL") {
			t.Errorf("%q became %q", text, got)
		}
		if again := masked(t, got); again != got {
			t.Errorf("%q, masked twice, became %q", got, again)
		}
	}
}

func TestOtherTextIsNotMasked(t *testing.T) {
	for _, text := range []string{
		"", "\n", "no end of line", "a\r\nb\n",
		"image: registry.k8s.io/pause@sha256:" + strings.Repeat("0a", 32) + "\n",
		"secretName: tls\ntokenTTL: 24h\nserviceAccountName: x\n",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		"certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nMIIB\n")) + "\n",
		"Nov 20 12:00:00 node kubelet[1]: E1120 failed to pull: dial tcp 10.0.0.1:5000: connection refused\n",
		"http://registry:5000/pause@sha256:0a https://ship@10.0.0.1/x\n",
		"      - pass:\n          message: enough memory\n", `[{"pass": {"message": "enough memory"}}, {"pass": true}]` + "\n", "bypass: 10.0.0.0/8\ncompass: north\n",
		"volumes:\n- name: tls\n  secret:\n    secretName: tls\n    defaultMode: 420\n",
		"authorization:\n  mode: Webhook\nPWD=/root\n", "clientAuth: no\n--client-cert-auth=true\n",
		"2026-11-20T12:00:00.123456Z container 1f3a.2b\n",
		"curl -k https://10.0.0.1/x\nopenssl x509 -in a -noout\nage1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\nservices.k8s.io pods.metrics\n",
		"mkdir -p /var/lib/x\ntar -px -f a.tar\nps -p 1234 -o args\nPWD=/root OLDPWD=/tmp\nnetstat -plnt\n",
		strings.Repeat("a long line without any ", 4000) + "\n",
	} {
		if diff := cmp.Diff(text, masked(t, text)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", text, diff)
		}
	}
}

// TestLinesWithManySecretsAreMaskedWhole has lines for which looking for each form would take seconds.
func TestLinesWithManySecretsAreMaskedWhole(t *testing.T) {
	for _, text := range []string{strings.Repeat("password=PEARL ", 2000), strings.Repeat("x", 20<<10) + " token: PEARL"} {
		got := masked(t, "before\n"+text+"\n  PEARL\nafter\n")
		if strings.Contains(got, "PEARL") || !strings.HasPrefix(got, "before\n"+redact.Mask+" (a long line") || !strings.HasSuffix(got, "\nafter\n") {
			t.Errorf("%.200q", got)
		}
	}
}

func FuzzCopy(f *testing.F) {
	f.Add("password: |\n", "x")
	f.Add("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----")
	f.Add("name: TOKEN", "value: x")
	r := redact.New() // compiling its rules takes much longer than masking a short text
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "Qm9hdHN3YWluQ2FwdGFpbg"
		for _, planted := range []string{"-----BEGIN PRIVATE KEY-----\n" + secret + "\n-----END PRIVATE KEY-----", "token: " + secret, "--token " + secret} {
			if strings.Contains(before+after, secret[:8]) {
				return
			}
			text := before + "\n " + planted + "\n" + after
			var out strings.Builder
			if err := r.Copy(&out, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); strings.Contains(got, secret) {
				t.Fatalf("a secret shows in\n%s\nof\n%s", got, text)
			}
		}
	})
}
