// The API documentation at /docs: Swagger UI over the server's own openapi.json. It loads nothing from other hosts, and
// keeps an API key only until it is closed or reloaded.
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";
import "swagger-ui-dist/swagger-ui.css";

SwaggerUI({
  domNode: document.getElementById("api"),
  url: "openapi.json",
  deepLinking: true,
  validatorUrl: null, // else Swagger UI sends the address of openapi.json to a service of its makers
});
