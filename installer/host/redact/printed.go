package redact

import "regexp"

// printedSecrets are forms of secrets that have no name such as password= before them: tokens with a known prefix, passwords
// among the arguments of a command, and the lines that kURL's add-ons print.
func printedSecrets() []rule {
	one := func(form, becomes string, signs ...string) rule {
		return rule{signs: signs, form: regexp.MustCompile(form), becomes: becomes}
	}
	return []rule{
		// what kURL's add-ons print
		one(`(?i)(\bpassword\s*\([^()]{0,80}\)\s*[:=]\s*)\S+`, `$1`+Mask, "password"),
		one(`(?i)(\bgenerated\s+(?:user|username|admin)\s*:\s*)\S+(\s+of\b)`, `$1`+Mask+`$2`, "generated"),
		one(`(?i)(\buser(?:name)?:password\s+(?:of|is|for)?\s*:?\s*)\S+`, `$1`+Mask, "user"),
		one(`(?i)(\bgenerated\b.{0,40}?\s[\w.-]+:)([^\s/:*]\S*)`, `$1`+Mask, "generated"),
		// arguments of commands
		one(`(\bsshpass\s+-p\s*)(?:"[^"]*"|'[^']*'|\S+)`, `$1`+Mask, "sshpass"),
		one(`(\b(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump|mongo|mongosh)\b(?:\s+[^\s|;&]+)*?\s+-p)(?:"[^"]*"|'[^']*'|[^\s|;&-][^\s|;&]*)`, `$1`+Mask, "mysql", "mariadb", "mongo"),
		one(`(\bredis-cli\b(?:\s+[^\s|;&]+)*?\s+-a\s*)(?:"[^"]*"|'[^']*'|[^\s|;&]+)`, `$1`+Mask, "redis-cli"),
		one(`(\bopenssl\b(?:\s+[^\s|;&]+)*?\s+-[kK]\s+)(?:"[^"]*"|'[^']*'|[^\s|;&]+)`, `$1`+Mask, "openssl"),
		one(`(\s-pass(?:in|out)?[ =]\s*["']?pass:)[^\s"'|;&]+`, `$1`+Mask, "-pass"),
		one(`(\s-p)([^\s=:/-][^\s]{5,})(\s+-[A-Za-z]|\s*$)`, `$1`+Mask+`$3`, " -p"),
		// entries of connection strings
		one(`(?i)(\b(?:pwd|accountkey|sharedaccesskey|sharedaccesssignature)\s*=\s*)[^\s;,&"'/][^\s;,&"']*`, `$1`+Mask, "pwd", "accountkey", "sharedaccess"),
		// tokens that are recognized by their prefix
		one(`\b(?:gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{20,255}|glpat-[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{30,})`, Mask, "gh", "glpat", "npm_"),
		one(`\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b`, Mask, "akia", "asia", "abia", "acca"),
		one(`\bxox[abeoprs]-[A-Za-z0-9-]{8,}|\bxapp-\d-[A-Za-z0-9-]{10,}`, Mask, "xox", "xapp"),
		one(`https://hooks\.slack\.com/services/\S+`, Mask, "hooks.slack.com"),
		one(`\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|\bsk-(?:proj-|ant-)?[A-Za-z0-9_-]{20,}`, Mask, "k_live", "k_test", "sk-"),
		one(`\bAIza[A-Za-z0-9_-]{35}`, Mask, "aiza"),
		one(`(?i)\bAGE-SECRET-KEY-[A-Z0-9-]{10,}`, Mask, "age-secret-key-"),
		one(`\bhv[sbr]\.[A-Za-z0-9_-]{8,}|\b[sbr]\.[A-Za-z0-9]{24}(?:\.[A-Za-z0-9]{5,6})?\b|\bdop_v1_[a-f0-9]{64}|\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`, Mask, "s.", "b.", "r.", "dop_v1", "sg."),
		// credentials of registries, in base64
		one(`(?i)(\.?dockerconfigjson\\*["']?\s*[:=]\s*\\*["']?)[A-Za-z0-9+/=]{8,}`, `$1`+Mask, "dockerconfigjson"),
		one(`(?i)(\.?dockercfg\\*["']?\s*[:=]\s*\\*["']?)[A-Za-z0-9+/=]{8,}`, `$1`+Mask, "dockercfg"),
	}
}
