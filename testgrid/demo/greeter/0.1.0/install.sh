# shellcheck shell=bash
# The operator installs the chart. The rights of the hook are the cluster's affair.
greeter() {
    sealift_apply greeter "$DIR/addons/greeter/$GREETER_VERSION/rights"
}
