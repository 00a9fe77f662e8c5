// The page of decisions about many rows alone. Joined after common.js and policy.js to one ES module.

const P = readPayload();

byId("page").replaceChildren(
  make("header", {}, make("h1", {}, "Decisions about many rows"), themeButton()),
  make("main", {}, makePolicies(P.sections)),
  make("footer", { class: "soft small" }, make("p", {}, `gbce ${P.version}. Nothing in this file is sent anywhere.`)),
);
