package lock

import "go.yaml.in/yaml/v3"

// section is the part of a lock for one kind of directive. It is a list.
type section struct {
	name string
	// read adds one element of the list to a lock, and reports to p what is wrong with it.
	read func(p *parser, n *yaml.Node, l *Lock)
	// facts returns the locked facts by the name that they are for.
	facts func(l Lock) map[string]string
}

// sections is where the sections are registered, in the order in which changes are told.
func sections() []section {
	return []section{imageSection(), assetSection(), chartSection(), targetSection()}
}
