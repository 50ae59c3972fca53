// stepfunctions-local listens on all addresses and has no setting for that.
const net = require("net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...more) { return listen.call(this, port, "127.0.0.1", ...more); };
